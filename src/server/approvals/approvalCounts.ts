import type { SqlClient, Statement } from "effect/sql"
import { columnsOf, dayOf, type Sign, slotOf } from "../store/dailyCounts.ts"

const SLOTS = 4

/** The columns that `approvalCounts` reads, of a table with this name in the statement. */
export const countedApprovalColumns = (table?: string): string =>
  columnsOf(
    [
      "org_id",
      "tool",
      "status",
      "decision_source",
      "decided_by_id",
      "requested_at",
      "decided_at",
      "escalated_at"
    ],
    table
  )

/**
 * CTEs that count the closed approvals in `rows`, a CTE with `countedApprovalColumns`: by outcome and time to decision, and by tool and
 * person. A closed approval never changes, so each is added once. Times are in steps of a tenth, as in `bucketSeconds.ts`.
 */
export const approvalCounts = (sql: SqlClient.SqlClient, rows: string, sign: Sign): Statement.Fragment =>
  sql.literal(`
  closed_approvals AS (
    SELECT
      org_id, ${dayOf("decided_at")} AS day, tool, decided_by_id,
      CASE status WHEN 'expired' THEN decision_source ELSE status END AS outcome,
      CASE decision_source
        WHEN 'human' THEN floor(ln(greatest(1, extract(epoch FROM decided_at - requested_at)::float8)) / ln(1.1::float8))::smallint
        ELSE -1
      END AS bucket,
      (escalated_at IS NOT NULL)::int AS is_escalated
    FROM ${rows}
    WHERE status <> 'pending'
      AND decided_at IS NOT NULL
      AND decision_source IS NOT NULL
  ), counted_approvals AS (
    INSERT INTO approval_counts AS c (org_id, day, outcome, bucket, slot, closed, escalated)
    SELECT org_id, day, outcome, bucket, ${slotOf(SLOTS)}, ${sign} * count(*), ${sign} * sum(is_escalated)
    FROM closed_approvals
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (org_id, day, outcome, bucket, slot) DO UPDATE
    SET closed = c.closed + excluded.closed, escalated = c.escalated + excluded.escalated
  ), counted_approval_groups AS (
    INSERT INTO approval_group_counts AS c (org_id, day, kind, name, outcome, slot, closed)
    SELECT org_id, day, kind, name, outcome, ${slotOf(SLOTS)}, ${sign} * count(*)
    FROM closed_approvals
      CROSS JOIN LATERAL (VALUES ('tool', tool), ('person', decided_by_id)) AS "group" (kind, name)
    WHERE name IS NOT NULL
    GROUP BY 1, 2, 3, 4, 5
    ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (org_id, day, kind, name, outcome, slot) DO UPDATE
    SET closed = c.closed + excluded.closed
  )`)
