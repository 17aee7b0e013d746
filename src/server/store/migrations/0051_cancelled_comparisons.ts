import { statements } from "./statements.ts"

/** A comparison can be cancelled. */
export default statements(
  `ALTER TABLE comparisons
    DROP CONSTRAINT comparisons_status_check,
    ADD CONSTRAINT comparisons_status_check CHECK (status IN ('running', 'completed', 'failed', 'cancelled'))`,
  `COMMENT ON COLUMN comparisons.failure IS 'Why it failed, or who cancelled it; null unless the status is failed or cancelled.'`
)
