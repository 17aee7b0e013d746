import { statements } from "./statements.ts"

/** Answers of requests with an `Idempotency-Key`, kept for 24 hours. An answer is null while the first request is in progress. */
export default statements(
  `CREATE TABLE idempotency_keys (
    org_id text COLLATE "C" NOT NULL,
    operation text NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    created_at timestamptz NOT NULL,
    answer bytea,
    PRIMARY KEY (org_id, operation, key)
  )`,
  `CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at)`
)
