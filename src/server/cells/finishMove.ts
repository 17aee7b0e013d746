/** The steps of a move after its import. Each can be repeated, and a process that is killed within one leaves it to be repeated. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { toDate } from "../../domain/Time.ts"
import { Audit } from "../identity/Audit.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { transaction } from "../store/transaction.ts"
import { withoutTimeouts } from "../store/withoutTimeouts.ts"
import { deleteRows } from "./deleteRows.ts"
import { moveEnded, removeFence } from "./fence.ts"
import {
  codeDigest,
  deleteCopy,
  findCopyByName,
  findMove,
  findMoveById,
  MoveRefused,
  type MoveRow
} from "./moveState.ts"

const refuse = (message: string) => new MoveRefused({ message })

const notMoving = (name: string) => refuse(`No move of an organization named ${name} is known here.`)

const inTransaction = <A, E, R>(sql: SqlClient.SqlClient, self: Effect.Effect<A, E, R>) =>
  Effect.provideService(transaction(self), SqlClient.SqlClient, sql)

const dropCopy = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  inTransaction(sql, withoutTimeouts(deleteCopy(sql, org_id)))

/** Changes the state of a move. Refused if it has another state than `from`, or another move or import has begun. */
const setState = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { move_id, org_id, started_at }: MoveRow,
  from: MoveRow["state"],
  state: MoveRow["state"],
  isFenced: boolean
) {
  const now = yield* (yield* StoreClock).now
  const changed = yield* sql`
    UPDATE organization_moves
    SET state = ${state}, is_fenced = ${isFenced}, changed_at = ${toDate(now)}
    WHERE org_id = ${org_id}
      AND move_id = ${move_id}
      AND started_at = ${toDate(started_at)}
      AND state = ${from}
    RETURNING org_id
  `
  if (changed.length === 0) return yield* moveEnded
})

/**
 * Where the organization leaves: gives it up. This cannot be undone: it is the moment at which it belongs to the other installation. Requires the proof
 * that the import is complete, and returns the code that activates it there.
 */
export const commitMove = Effect.fnUntraced(function* (
  name: string,
  receipt: string,
  moved_to: string | null
) {
  const sql = yield* SqlClient.SqlClient
  return yield* inTransaction(
    sql,
    Effect.gen(function* () {
      const move = yield* findMove(sql, name)
      if (move === undefined) return yield* notMoving(name)
      const isLeaving = move.state === "frozen" || move.state === "moved" || move.state === "left"
      if (!isLeaving || move.row_count === null || move.release_code === null) {
        return yield* refuse(`${name} is not exported here.`)
      }
      if (codeDigest(receipt) !== move.receipt) {
        return yield* refuse(
          `The receipt is not that of the last export of ${name}. Import that export, and use the receipt that it prints.`
        )
      }
      if (move.state === "frozen") {
        yield* sql`UPDATE organization_moves SET moved_to = ${moved_to} WHERE org_id = ${move.org_id}`
        yield* setState(sql, move, "frozen", "moved", true)
      }
      return move.release_code
    })
  )
})

/**
 * Where the organization arrives: activates it, with the code of the commit. Passes the proof of that on before it waits for the tables whose
 * triggers it drops, and returns it.
 */
export const activateMove = Effect.fnUntraced(function* (
  name: string,
  release: string,
  onActive: (activation: string) => Effect.Effect<void> = () => Effect.void
) {
  const sql = yield* SqlClient.SqlClient
  const audit = yield* Audit
  const move = yield* inTransaction(
    sql,
    Effect.gen(function* () {
      const found = yield* findMove(sql, name)
      if (found === undefined) return yield* notMoving(name)
      // It leaves for a third installation meanwhile.
      const isLater = codeDigest(release) === found.arrival_release_code
      if (isLater) return { ...found, activation_code: found.arrival_activation_code, isLater }
      if (found.state !== "staged" && found.state !== "arrived") {
        return yield* refuse(`${name} is not imported here.`)
      }
      if (codeDigest(release) !== found.release_code) {
        return yield* refuse(
          `The code does not activate this import of ${name}. Use the code that countersign org commit printed for it.`
        )
      }
      if (found.state === "staged") {
        yield* setState(sql, found, "staged", "arrived", false)
        // This ends the fence. Its triggers are dropped below.
        yield* audit.record({ org_id: found.org_id, actor: null }, "organization.moved", found.org_id, {
          move_id: found.move_id
        })
      }
      return { ...found, isLater }
    })
  )
  const activation = move.activation_code ?? ""
  yield* onActive(activation)
  if (!move.isLater) {
    yield* removeFence(sql, move.org_id)
    yield* sql`DELETE FROM organization_move_replicas WHERE org_id = ${move.org_id}`
  }
  return activation
})

/** Where the organization left: deletes the copy, with the proof that the organization is active in the other installation. */
export const finishMove = Effect.fnUntraced(function* (
  name: string,
  activation: string,
  onProgress: (rows: number) => void = () => undefined
) {
  const sql = yield* SqlClient.SqlClient
  const move = yield* inTransaction(sql, findMove(sql, name))
  if (move === undefined) return yield* notMoving(name)
  if (move.state !== "moved" && move.state !== "left") {
    return yield* refuse(`${name} has not moved from here.`)
  }
  if (codeDigest(activation) !== move.activation_code) {
    return yield* refuse(
      `The code does not prove that ${name} is active elsewhere. Use the code that countersign org activate printed.`
    )
  }
  // From here on, the export cannot be written again: rows would be missing.
  yield* sql`
    UPDATE organization_moves
    SET transfer_key = NULL, export_receipt = NULL, export_activation = NULL
    WHERE org_id = ${move.org_id}
      AND move_id = ${move.move_id}
  `
  const leave = Effect.tap(deleteRows(sql, move, "moved", onProgress), () =>
    inTransaction(sql, setState(sql, move, "moved", "left", false))
  )
  const rows =
    move.state === "left"
      ? 0
      : yield* Effect.catchTag(leave, "MoveRefused", (refusal) =>
          Effect.flatMap(inTransaction(sql, findMoveById(sql, move.org_id)), (current) =>
            // Another run of this command has deleted the rest meanwhile.
            current?.state === "left" && current.move_id === move.move_id
              ? Effect.succeed(0)
              : Effect.fail(refusal)
          )
        )
  yield* removeFence(sql, move.org_id)
  yield* sql`DELETE FROM organization_move_replicas WHERE org_id = ${move.org_id}`
  yield* dropCopy(sql, move.org_id)
  return rows
})

/**
 * Ends a move that is not committed. Where the organization leaves, it is active again, and files exported so far cannot be activated any
 * more; a copy that was made of it cannot be completed any more. Where it arrives, the imported copy is deleted; its file can be imported again.
 */
export const abortMove = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const copy = yield* findCopyByName(sql, name)
  if (copy !== undefined) {
    // Only a copy was made; the organization may have arrived in an earlier move. One that has left may have a copy if its deletion was killed.
    const last = yield* inTransaction(sql, findMoveById(sql, copy.org_id))
    if (last === undefined || last.state === "arrived" || last.state === "left") {
      yield* dropCopy(sql, copy.org_id)
      return "uncopied" as const
    }
  }
  // One transaction, so that neither a commit nor an activation is between the check and the change.
  const move = yield* inTransaction(
    sql,
    Effect.gen(function* () {
      const found = yield* findMove(sql, name)
      if (found === undefined) return yield* notMoving(name)
      const { org_id, state } = found
      if (state === "moved" || state === "left") {
        return yield* refuse(
          `${name} has moved: it belongs to the other installation. To move it back, export it there.`
        )
      }
      if (state === "arrived") return yield* refuse(`${name} is active here. Its move is over.`)
      if (state === "frozen") {
        // From here on the organization is active, and a commit is refused.
        yield* sql`UPDATE organization_moves SET row_count = NULL WHERE org_id = ${org_id}`
        yield* setState(sql, found, state, "frozen", false)
      } else {
        // No release code activates it from here on.
        yield* setState(sql, found, state, "discarded", true)
      }
      return found
    })
  )
  const { move_id, org_id } = move
  if (move.state === "frozen") {
    yield* dropCopy(sql, org_id)
    yield* removeFence(sql, org_id)
    // As before the export: the move by which it had arrived is the last one again.
    yield* sql`
      UPDATE organization_moves
      SET
        state = 'arrived', receipt = NULL, moved_to = NULL,
        release_code = arrival_release_code, activation_code = arrival_activation_code,
        arrival_release_code = NULL, arrival_activation_code = NULL,
        transfer_key = NULL, export_receipt = NULL, export_activation = NULL
      WHERE org_id = ${org_id}
        AND move_id = ${move_id}
        AND NOT is_fenced
        AND arrival_activation_code IS NOT NULL
    `
    yield* sql`
      DELETE FROM organization_moves
      WHERE org_id = ${org_id}
        AND move_id = ${move_id}
        AND state = 'frozen'
        AND NOT is_fenced
    `
    return "active" as const
  }
  yield* deleteRows(sql, move, "discarded", () => undefined)
  yield* inTransaction(sql, setState(sql, move, "discarded", "discarded", false))
  yield* removeFence(sql, org_id)
  yield* sql`DELETE FROM organization_move_replicas WHERE org_id = ${org_id}`
  return "discarded" as const
})
