import { statements } from "./statements.ts"

/**
 * The console lists the runs of all tasks. A new run is the last of its organization, so that its entries change few pages; failed and slow
 * runs are few.
 */
export default statements(
  `CREATE INDEX runs_newest ON runs (org_id, run_id DESC)`,
  `CREATE INDEX runs_newest_failed ON runs (org_id, run_id DESC) WHERE status = 'failed'`,
  `CREATE INDEX runs_slow ON runs (org_id, run_id DESC) WHERE duration_ms >= 10000`,
  `CREATE INDEX feedback_scored_runs ON feedback (org_id, score, run_id DESC)`,
  `CREATE INDEX run_reviews_newest ON run_reviews (org_id, run_id DESC)`
)
