import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { toDate } from "../../domain/Time.ts"
import { transaction } from "../store/transaction.ts"
import { withoutTimeouts } from "../store/withoutTimeouts.ts"
import { bypassFence, moveEnded } from "./fence.ts"
import { listMovedTables, quoted } from "./movedTables.ts"
import type { MoveRow } from "./moveState.ts"

/**
 * Deletes the rows of an organization, children of foreign keys first, in a transaction a table. Returns their number. Each transaction
 * checks that this move still has this state: a command that was suspended meanwhile must not delete the rows of a later move, or of
 * a later import of the same file.
 */
export const deleteRows = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { move_id, org_id, started_at }: Pick<MoveRow, "move_id" | "org_id" | "started_at">,
  state: MoveRow["state"],
  onProgress: (rows: number) => void
) {
  const check = Effect.flatMap(
    sql`
      SELECT 1
      FROM organization_moves
      WHERE org_id = ${org_id}
        AND move_id = ${move_id}
        AND started_at = ${toDate(started_at)}
        AND state = ${state}
      FOR SHARE
    `,
    (found) => (found.length === 0 ? Effect.fail(moveEnded) : Effect.void)
  )
  let rows = 0
  for (const { name } of [...(yield* listMovedTables(sql))].toReversed()) {
    const deleted = yield* transaction(
      withoutTimeouts(
        Effect.andThen(
          Effect.andThen(check, bypassFence(sql)),
          sql.unsafe<{ readonly count: number }>(
            `WITH deleted AS (DELETE FROM ${quoted(name)} WHERE org_id = $1 RETURNING 1) ` +
              "SELECT count(*)::int AS count FROM deleted",
            [org_id]
          )
        )
      )
    ).pipe(Effect.provideService(SqlClient.SqlClient, sql))
    onProgress((rows += deleted[0]?.count ?? 0))
  }
  return rows
})
