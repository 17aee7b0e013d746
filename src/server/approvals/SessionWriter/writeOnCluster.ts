/**
 * A write on a Citus cluster, in a transaction that has locked the session and read what the change follows from. Citus sends a statement about
 * one table and one organization to its node almost without planning, and plans each part of a larger one: so a write is a few small
 * statements. The one that PostgreSQL runs (`writeStatement`) would take three times the processor time.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import {
  type GivenRows,
  insertGiven,
  int8s,
  type RowInsert,
  texts,
  timestamps,
  unnestRows
} from "../../store/givenRows.ts"
import type { CounterWrite } from "../BudgetCounters/composeSpends.ts"
import { raiseCounter } from "./counterChange.ts"
import type { ChangePart } from "./Op.ts"
import { insertedReviews } from "./reviewerChange.ts"
import type { SessionWrite, Written } from "./SessionWrite.ts"
import { stepInserts } from "./stepChange.ts"
import { decisionChange, executionChange, outcomeChange } from "./stepUpdates.ts"
import { countTransition, transitionChange } from "./transitionChange.ts"
import { insertedEvents } from "./writeStatement.ts"

/** Runs the statements. Undefined if the session or the state of the change is another one. */
export const writeOnCluster = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  write: SessionWrite,
  counters: ReadonlyArray<CounterWrite>
) {
  const { change, events, now, org_id, session_id } = write
  const [written] = yield* sql<Written>`
    UPDATE agent_sessions
    SET last_event = last_event + ${events.length}::bigint
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
    RETURNING trace_id, last_event::float8 AS newest
  `
  if (written === undefined) return undefined
  const op = { op: 0, write: { ...write, notification: null } }
  const applied: GivenRows = {
    ops: [0],
    columns: {
      org_id: texts([org_id]),
      session_id: texts([session_id]),
      at: timestamps([now]),
      newest_before: int8s([written.newest - events.length])
    }
  }
  const insert = (inserts: ReadonlyArray<RowInsert>) =>
    Effect.forEach(inserts, (one) => insertGiven(sql, one, applied), { discard: true })
  const isChanged = yield* Effect.gen(function* () {
    switch (change._tag) {
      case "Step": {
        const ops = [{ ...op, change }]
        const { approvals, steps } = stepInserts(ops)
        yield* insert([steps, ...approvals, ...(change.review === null ? [] : [insertedReviews(ops)])])
        return true
      }
      case "Decision":
        return yield* updates(sql, applied, decisionChange(sql, [{ ...op, change }], org_id))
      case "Execution":
        return yield* updates(sql, applied, executionChange(sql, [{ ...op, change }], org_id))
      case "Outcome":
        return yield* updates(sql, applied, outcomeChange(sql, [{ ...op, change }], org_id))
      case "Transition":
        return yield* updates(sql, applied, transitionChange(sql, [{ ...op, change }], org_id))
    }
  })
  if (!isChanged) return undefined
  for (const counter of counters) yield* sql`${raiseCounter(sql, counter)}`
  yield* insert([insertedEvents([{ ...op, change }])])
  if (change._tag === "Transition" && change.to.status !== "pending")
    yield* countTransition(sql, org_id, change.to.approval_id)
  return written
})

/** Runs the updates of a change, and returns whether each has taken effect. */
const updates = (sql: SqlClient.SqlClient, applied: GivenRows, parts: ReadonlyArray<ChangePart>) =>
  Effect.map(
    Effect.forEach(
      parts,
      ({ ctes, name }) => sql`
        WITH eligible AS (SELECT * FROM ${unnestRows(applied, "a")}), ${sql.join(", ", false)(ctes)}
        SELECT op
        FROM ${sql.literal(name)}
      `
    ),
    (results) => results.every((rows) => rows.length > 0)
  )
