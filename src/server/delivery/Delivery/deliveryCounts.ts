import { Array as Arr, Order } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { type GivenRows, insertGiven, int4s, texts } from "../../store/givenRows.ts"
import { columnsOf, dayOf, type Sign, slotOf } from "../../store/dailyCounts.ts"

const SLOTS = 4

/** What `delivery_counts` does with counts of a row that it has. */
const ADDED = `ON CONFLICT (org_id, day, destination_id, slot) DO UPDATE
    SET delivered = c.delivered + excluded.delivered, failed = c.failed + excluded.failed`

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
    ${ADDED}
  )`)

/** A delivery, which is counted if it is completed, by the day that enqueued it. */
export interface CountedDelivery {
  readonly destination_id: string
  readonly created_at: Date
  readonly status: string
}

/** Counts completed deliveries of an organization by a statement of its own, on a cluster. */
export const countDeliveries = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  deliveries: ReadonlyArray<CountedDelivery>
) => {
  const groups = Object.values(
    Arr.groupBy(
      deliveries.filter(({ status }) => status !== "pending"),
      (one) => `${utcDay(one)} ${one.destination_id}`
    )
  ).toSorted(([one], [other]) => byKey(one, other))
  const failed = groups.map((group) => group.filter(({ status }) => status === "failed").length)
  const rows: GivenRows = {
    ops: groups.map((_, index) => index),
    columns: {
      org_id: texts(groups.map(() => org_id)),
      day: texts(groups.map(([first]) => utcDay(first))),
      destination_id: texts(groups.map(([{ destination_id }]) => destination_id)),
      delivered: int4s(groups.map((group, index) => group.length - (failed[index] ?? 0))),
      failed: int4s(failed)
    }
  }
  return insertGiven(
    sql,
    {
      into: "delivery_counts AS c",
      columns: {
        org_id: "g.org_id",
        day: "g.day::date",
        destination_id: "g.destination_id",
        slot: slotOf(SLOTS),
        delivered: "g.delivered",
        failed: "g.failed"
      },
      rows: { g: rows },
      ending: ADDED
    },
    rows
  )
}

const utcDay = ({ created_at }: CountedDelivery): string => created_at.toISOString().slice(0, 10)

const byKey = Order.combine(
  Order.mapInput(Order.String, utcDay),
  Order.mapInput(Order.String, ({ destination_id }: CountedDelivery) => destination_id)
)
