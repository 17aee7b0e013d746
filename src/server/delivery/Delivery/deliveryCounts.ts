import type { SqlClient, Statement } from "effect/sql"
import { columnsOf, dayOf, type Sign, slotOf } from "../../store/dailyCounts.ts"

const SLOTS = 4

/** The columns that `deliveryCounts` reads, of a table with this name in the statement. */
export const countedDeliveryColumns = (table?: string): string =>
  columnsOf(["org_id", "destination_id", "created_at", "status"], table)

/**
 * A CTE that counts the completed deliveries in `rows`, a CTE with `countedDeliveryColumns`, by the day that enqueued them: a replay
 * moves a delivery, and is no second one.
 */
export const deliveryCounts = (sql: SqlClient.SqlClient, rows: string, sign: Sign): Statement.Fragment =>
  sql.literal(`
  counted_deliveries AS (
    INSERT INTO delivery_counts AS c (org_id, day, destination_id, slot, delivered, failed)
    SELECT
      org_id, ${dayOf("created_at")}, destination_id, ${slotOf(SLOTS)},
      ${sign} * count(*) FILTER (WHERE status <> 'failed'), ${sign} * count(*) FILTER (WHERE status = 'failed')
    FROM ${rows}
    WHERE status <> 'pending'
    GROUP BY 1, 2, 3
    ORDER BY 1, 2, 3
    ON CONFLICT (org_id, day, destination_id, slot) DO UPDATE
    SET delivered = c.delivered + excluded.delivered, failed = c.failed + excluded.failed
  )`)
