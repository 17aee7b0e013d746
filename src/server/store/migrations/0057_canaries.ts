import { statements } from "./statements.ts"

/**
 * A release can answer a share of a task's runs before it is live. Existing tasks have no canary, so the constraint need not be checked on
 * them.
 */
export default statements(
  `ALTER TABLE tasks
    ADD COLUMN canary_release_id text COLLATE "C",
    ADD COLUMN canary_share double precision,
    ADD COLUMN canary_started_at timestamptz,
    ADD CONSTRAINT tasks_canary_check
      CHECK (num_nulls(canary_release_id, canary_share, canary_started_at) IN (0, 3)) NOT VALID`,
  `COMMENT ON COLUMN tasks.canary_release_id IS 'Release that answers a share of the runs; null: none.'`,
  `COMMENT ON COLUMN tasks.canary_share IS 'Share of the runs that the canary answers, 0 to 1; null: no canary.'`,
  `COMMENT ON COLUMN tasks.canary_started_at IS 'When the canary was started; null: no canary.'`
)
