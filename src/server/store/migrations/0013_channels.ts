import { statements } from "./statements.ts"

/**
 * Columns for channels other than webhooks: the size of a delivery, its rejected part, the last response status, and
 * the time after which no attempt starts. And email to reviewers: a row per event and recipient without the text, which
 * is written from the approval when the email is sent.
 */
export default statements(
  `ALTER TABLE deliveries
    ADD COLUMN size int NOT NULL DEFAULT 1,
    ADD COLUMN rejected int NOT NULL DEFAULT 0,
    ADD COLUMN status_code int,
    DROP CONSTRAINT deliveries_status_check,
    ADD CONSTRAINT deliveries_status_check CHECK (status IN ('pending', 'delivered', 'partial', 'failed'))`,
  `ALTER TABLE delivery_queue ADD COLUMN give_up_at timestamptz`,
  `CREATE TABLE approval_mail (
    org_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    type text NOT NULL,
    approval_id text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    occurred_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, event_id)
  )`,
  `CREATE INDEX api_keys_email ON api_keys (org_id, key_id) WHERE email IS NOT NULL AND revoked_at IS NULL`
)
