import { statements } from "./statements.ts"

/** The answers of requests that named an `Idempotency-Key`, for 24 hours. An answer is null while the first request is at work. */
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
