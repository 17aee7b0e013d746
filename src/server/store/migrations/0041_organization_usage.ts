import { statements } from "./statements.ts"

/**
 * Adds the amounts that organizations store, for their limits, and an index of revoked and expired keys, for their
 * retention. Existing rows are counted once, with their sizes as stored, without the overhead of a row.
 */
export default statements(
  `CREATE INDEX api_keys_ended ON api_keys (least(revoked_at, expires_at))
    WHERE created_by_id IS NOT NULL AND least(revoked_at, expires_at) IS NOT NULL`,
  `CREATE TABLE organization_usage (
    org_id text COLLATE "C" PRIMARY KEY,
    runs bigint NOT NULL DEFAULT 0,
    feedback bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0
  ) WITH (fillfactor = 50)`,
  `COMMENT ON TABLE organization_usage IS 'What organizations store, an estimate for their limits. Replicas add to it every few seconds.'`,
  `COMMENT ON COLUMN organization_usage.org_id IS 'Organization that owns the row.'`,
  `COMMENT ON COLUMN organization_usage.runs IS 'Logged runs.'`,
  `COMMENT ON COLUMN organization_usage.feedback IS 'Feedback records.'`,
  `COMMENT ON COLUMN organization_usage.bytes IS 'Size of runs, feedback, datasets, comparison results, sessions, steps and approvals.'`,
  `INSERT INTO organization_usage (org_id, runs, feedback, bytes)
  SELECT org_id, sum(runs), sum(feedback), sum(bytes)
  FROM (
    SELECT org_id, count(*) AS runs, 0 AS feedback, sum(pg_column_size(runs.*)) AS bytes FROM runs GROUP BY org_id
    UNION ALL
    SELECT org_id, 0, count(*), sum(pg_column_size(feedback.*)) FROM feedback GROUP BY org_id
    UNION ALL
    SELECT org_id, 0, 0, sum(bytes) FROM dataset_examples GROUP BY org_id
    UNION ALL
    SELECT org_id, 0, 0, sum(pg_column_size(comparison_results.*)) FROM comparison_results GROUP BY org_id
    UNION ALL
    SELECT org_id, 0, 0, sum(pg_column_size(agent_sessions.*)) FROM agent_sessions GROUP BY org_id
    UNION ALL
    SELECT org_id, 0, 0, sum(pg_column_size(session_events.*)) FROM session_events GROUP BY org_id
    UNION ALL
    SELECT org_id, 0, 0, sum(pg_column_size(governed_steps.*)) FROM governed_steps GROUP BY org_id
    UNION ALL
    SELECT org_id, 0, 0, sum(pg_column_size(approvals.*)) FROM approvals GROUP BY org_id
  ) AS stored
  GROUP BY org_id`
)
