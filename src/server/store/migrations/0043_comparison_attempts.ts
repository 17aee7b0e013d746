import { statements } from "./statements.ts"

/** A comparison that fails repeatedly ends as `failed` instead of calling its model endlessly. */
export default statements(
  `ALTER TABLE comparisons
    ADD COLUMN attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN failure text,
    DROP CONSTRAINT comparisons_status_check,
    ADD CONSTRAINT comparisons_status_check CHECK (status IN ('running', 'completed', 'failed'))`,
  `COMMENT ON COLUMN comparisons.attempts IS 'Claims since a batch was last recorded, without those that a shutdown or a database outage ended.'`,
  `COMMENT ON COLUMN comparisons.failure IS 'Why it failed; null unless the status is failed.'`
)
