import { assert, describe, it } from "@effect/vitest"
import { PgConnection } from "@effect/sql-pg"
import { Cause, DateTime, Deferred, Effect, Exit, Fiber } from "effect"
import { deleteRows } from "../../../src/server/cells/deleteRows.ts"
import { copyOrganization } from "../../../src/server/cells/copyOrganization.ts"
import { exportOrganization } from "../../../src/server/cells/exportOrganization.ts"
import { moveEnded } from "../../../src/server/cells/fence.ts"
import { abortMove, activateMove, commitMove, finishMove } from "../../../src/server/cells/finishMove.ts"
import { importOrganization } from "../../../src/server/cells/importOrganization.ts"
import { listMovedTables } from "../../../src/server/cells/movedTables.ts"
import { findMoveById } from "../../../src/server/cells/moveState.ts"
import { silentReplicas } from "../../../src/server/cells/replicaReports.ts"
import type { LineWriter } from "../../../src/server/cells/transfer/transferFile.ts"
import {
  type CommandCell,
  copyFrom,
  countFences,
  exportFrom,
  idOf,
  makeFile,
  reading,
  startCommandCell,
  stateOf,
  TRANSFER_KEY
} from "../../support/cellCommands.ts"
import { eventually } from "../../support/eventually.ts"

describe("commands of a move that run at the same time", () => {
  it.live(
    "an import that is aborted while it reads leaves no copy, and the fence ends for all tables with the activation",
    () =>
      Effect.gen(function* () {
        const here = yield* startCommandCell
        const there = yield* startCommandCell
        yield* here.createOrganization
        const first = yield* exportFrom(here)

        // The abort waits for the import's locks, and the import ends after it.
        let aborting: Fiber.Fiber<unknown, unknown> | undefined
        const abort = Effect.gen(function* () {
          aborting = yield* Effect.forkDetach(there.command(abortMove("acme")))
          yield* eventually(stateOf(there), (state) => state === "discarded open")
        })
        const aborted = yield* Effect.exit(there.command(importOrganization(reading(first, abort))))
        assert.deepStrictEqual(aborted, Exit.fail(moveEnded))
        yield* Fiber.join(aborting ?? assert.fail("no abort"))
        assert.deepStrictEqual(yield* there.sql`SELECT FROM organizations WHERE name = 'acme'`, [])
        assert.strictEqual(yield* countFences(there), 0)

        const { receipt } = yield* Effect.flatMap(exportFrom(here), (lines) =>
          there.command(importOrganization(reading(lines)))
        )
        const org_id = yield* idOf(there)
        const release = yield* here.command(commitMove("acme", receipt, null))
        // A reader keeps the triggers of a table from being dropped.
        const reader = yield* PgConnection.make({ url: there.url })
        yield* reader.query("BEGIN")
        yield* reader.query("LOCK TABLE delivery_destinations IN ACCESS SHARE MODE")
        const activation = yield* Deferred.make<string>()
        const activating = yield* Effect.forkChild(
          there.command(
            activateMove("acme", release, (code) => Effect.asVoid(Deferred.succeed(activation, code)))
          )
        )
        const code = yield* Deferred.await(activation)
        assert.strictEqual(yield* stateOf(there), "arrived open")
        const write = there.sql`
          INSERT INTO delivery_destinations (org_id, destination_id)
          VALUES (${org_id}, 'x')
          RETURNING 1
        `
        assert.strictEqual((yield* write).length, 1)
        yield* reader.query("COMMIT")
        assert.strictEqual(yield* Fiber.join(activating), code)
        assert.strictEqual(yield* countFences(there), 0)

        // An abort of the first import, suspended until now, deletes nothing of what is active.
        const { move_id }: { readonly move_id: string } = JSON.parse(first[0] ?? "")
        const started_at = DateTime.makeUnsafe(0)
        const late = deleteRows(there.sql, { org_id, move_id, started_at }, "discarded", () => undefined)
        assert.deepStrictEqual(yield* Effect.exit(late), Exit.fail(moveEnded))
        assert.strictEqual(yield* idOf(there), org_id)
      }).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "a file whose import was aborted after the commit is imported again, and an abort of the first import changes nothing then",
    () =>
      Effect.gen(function* () {
        const here = yield* startCommandCell
        const there = yield* startCommandCell
        yield* here.createOrganization
        const lines = yield* exportFrom(here)
        const { receipt } = yield* there.command(importOrganization(reading(lines)))
        const org_id = yield* idOf(there)
        const release = yield* here.command(commitMove("acme", receipt, null))
        const first = (yield* there.command(findMoveById(there.sql, org_id))) ?? assert.fail("a move")

        assert.strictEqual(yield* there.command(abortMove("acme")), "discarded")
        assert.deepStrictEqual(yield* there.sql`SELECT FROM organizations WHERE name = 'acme'`, [])
        // While an abort is in progress, it would delete what an import brings.
        yield* there.sql`UPDATE organization_moves SET is_fenced = true`
        const early = yield* Effect.exit(there.command(importOrganization(reading(lines))))
        assert.match(
          Exit.isFailure(early) ? String(Cause.squash(early.cause)) : "",
          /An abort of an earlier import of acme is not finished/
        )
        yield* there.command(abortMove("acme"))

        const again = yield* there.command(importOrganization(reading(lines)))
        assert.isFalse(again.isRepeated)
        assert.strictEqual(again.receipt, receipt)
        // The first abort was suspended before its end, and another import of the file was aborted meanwhile.
        yield* there.sql`UPDATE organization_moves SET state = 'discarded'`
        const late = deleteRows(there.sql, first, "discarded", () => undefined)
        assert.deepStrictEqual(yield* Effect.exit(late), Exit.fail(moveEnded))
        assert.strictEqual(yield* idOf(there), org_id)
        yield* there.sql`UPDATE organization_moves SET state = 'staged'`

        const activation = yield* there.command(activateMove("acme", release))
        assert.strictEqual(yield* stateOf(there), "arrived open")

        // Another finish ends while this one deletes.
        const [{ name: table } = assert.fail("a table")] = (yield* listMovedTables(here.sql)).toReversed()
        const writer = yield* PgConnection.make({ url: here.url })
        yield* writer.query("BEGIN")
        yield* writer.query(`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`)
        const finishing = yield* Effect.forkChild(here.command(finishMove("acme", activation)))
        const waiting = (pattern: string) =>
          eventually(
            here.sql`
              SELECT 1
              FROM pg_stat_activity
              WHERE datname = current_database()
                AND wait_event_type = 'Lock'
                AND query LIKE ${pattern}
            `,
            (rows) => rows.length > 0
          )
        yield* waiting("WITH deleted AS%")
        const other = yield* PgConnection.make({ url: here.url })
        const ending = yield* Effect.forkChild(
          other.query("UPDATE organization_moves SET state = 'left', is_fenced = false")
        )
        yield* waiting("UPDATE organization_moves%")
        yield* writer.query("COMMIT")
        yield* Fiber.join(ending)
        assert.strictEqual(yield* Fiber.join(finishing), 0)
        assert.strictEqual(yield* countFences(here), 0)
      }).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "an export that is aborted while it waits for requests in progress fails, and leaves no triggers",
    () =>
      Effect.gen(function* () {
        const here = yield* startCommandCell
        yield* here.createOrganization
        const exporting = yield* Effect.forkChild(Effect.exit(exportFrom(here)))
        yield* eventually(stateOf(here), (state) => state === "frozen fenced")
        yield* here.command(abortMove("acme"))
        assert.deepStrictEqual(yield* Fiber.join(exporting), Exit.fail(moveEnded))
        assert.strictEqual(yield* countFences(here), 0)
        assert.strictEqual(yield* stateOf(here), "none")
      }).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "a move is refused while a replica runs that does not report, such as one of an earlier release",
    () =>
      Effect.gen(function* () {
        const here = yield* startCommandCell
        const there = yield* startCommandCell
        yield* here.createOrganization
        const lines = yield* exportFrom(here)
        for (const { sql } of [here, there]) {
          yield* sql`INSERT INTO delivery_owners (owner, lease_until) VALUES ('earlier', now() + interval '1 hour')`
        }
        const importing = yield* Effect.exit(
          there.command(importOrganization(reading(lines), () => undefined, 3_000))
        )
        assert.deepStrictEqual(importing, Exit.fail(silentReplicas(1)))
        const organization = { org_id: yield* idOf(here), name: "acme" }
        const exporting = yield* Effect.exit(
          here.command(
            exportOrganization(organization, makeFile().writer, {
              transferKey: TRANSFER_KEY,
              maxDrainMillis: 3_000
            })
          )
        )
        assert.deepStrictEqual(exporting, Exit.fail(silentReplicas(1)))
        yield* there.sql`DELETE FROM delivery_owners WHERE owner = 'earlier'`
        yield* there.command(importOrganization(reading(lines)))
        assert.strictEqual(yield* stateOf(there), "staged fenced")
      }).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "an organization whose import was aborted after the commit is exported again, for the same installation only",
    () =>
      Effect.gen(function* () {
        const here = yield* startCommandCell
        const there = yield* startCommandCell
        yield* here.createOrganization
        const refusal = <A, E>(command: Effect.Effect<A, E>) =>
          Effect.map(Effect.exit(command), (exit) =>
            Exit.isFailure(exit) ? String(Cause.squash(exit.cause)) : assert.fail("a refusal")
          )
        const importThere = (lines: ReadonlyArray<string>) =>
          there.command(importOrganization(reading(lines)))
        const { receipt: sinceCopy } = yield* importThere(yield* copyFrom(here))
        assert.match(
          yield* refusal(exportFrom(here, { sinceCopy, transferKey: "cst1_other" })),
          /was made for another transfer key\. Export it for the same one: --for cst1_test\. Nothing was changed/
        )
        assert.strictEqual(yield* stateOf(here), "none")
        const first = yield* exportFrom(here, { sinceCopy })
        const { receipt } = yield* importThere(first)
        const release = yield* here.command(commitMove("acme", receipt, null))
        yield* there.command(abortMove("acme"))

        // Without its copy, the export cannot be imported. It is written again as a whole, with the codes that the commit has used.
        assert.match(yield* refusal(importThere(first)), /since a copy that is not loaded here/)
        assert.match(
          yield* refusal(exportFrom(here, { transferKey: "cst1_other" })),
          /only for the transfer key that it was made for: --for cst1_test$/
        )
        assert.match(yield* refusal(exportFrom(here, { sinceCopy })), /leave out --since-copy/)
        const again = yield* exportFrom(here)
        assert.strictEqual(yield* stateOf(here), "moved fenced")
        assert.strictEqual((yield* importThere(again)).receipt, receipt)
        assert.strictEqual(yield* here.command(commitMove("acme", receipt, null)), release)
        const activation = yield* there.command(activateMove("acme", release))
        // It is active: the file changes nothing.
        assert.isTrue((yield* importThere(yield* exportFrom(here))).isRepeated)
        assert.strictEqual(yield* stateOf(there), "arrived open")

        // A deletion that begins while it is written, or was interrupted, ends it: rows may be missing.
        const organization = { org_id: yield* idOf(here), name: "acme" }
        const { lines, writer } = makeFile()
        const finishing = exportOrganization(
          organization,
          {
            ...writer,
            write: async (line) => {
              await writer.write(line)
              if (lines.length === 2) await Effect.runPromise(here.command(finishMove("acme", activation)))
            }
          },
          { transferKey: TRANSFER_KEY }
        )
        assert.deepStrictEqual(yield* Effect.exit(here.command(finishing)), Exit.fail(moveEnded))
        assert.isFalse(lines.some((line) => line.startsWith('{"end":')))
        yield* here.sql`UPDATE organization_moves SET state = 'moved', is_fenced = true`
        assert.match(
          yield* refusal(
            here.command(exportOrganization(organization, writer, { transferKey: TRANSFER_KEY }))
          ),
          /acme has moved\. Delete its copy here/
        )

        // After it has left again, the file does not bring it back.
        const back = yield* exportFrom(there)
        const third = yield* startCommandCell
        const { receipt: later } = yield* third.command(importOrganization(reading(back)))
        const laterRelease = yield* there.command(commitMove("acme", later, null))
        const last = yield* third.command(activateMove("acme", laterRelease))
        yield* there.command(finishMove("acme", last))
        assert.match(
          yield* refusal(importThere(again)),
          /was active here with this export, and has left since/
        )
        assert.strictEqual(yield* stateOf(there), "left open")
      }).pipe(Effect.scoped),
    240_000
  )

  it.live(
    "an import after a copy that is aborted while it reads ends with that reason, and leaves no rows",
    () =>
      Effect.gen(function* () {
        const here = yield* startCommandCell
        const there = yield* startCommandCell
        yield* here.createOrganization
        yield* here.sql`
          INSERT INTO run_metadata (org_id, task_id, digest, run_id)
          SELECT org_id, 'tsk', decode(md5(i::text), 'hex'), 'run_' || i
          FROM organizations, generate_series(1, 10) AS i
        `
        const { receipt: sinceCopy } = yield* there.command(
          importOrganization(reading(yield* copyFrom(here)))
        )
        yield* here.sql`DELETE FROM run_metadata WHERE run_id LIKE '%1'`
        const lines = yield* exportFrom(here, { sinceCopy })
        // The abort waits for a row that the import has deleted, and then the import for the row of the move.
        let aborting: Fiber.Fiber<unknown, unknown> | undefined
        const abort = Effect.gen(function* () {
          aborting = yield* Effect.forkDetach(there.command(abortMove("acme")))
          yield* eventually(
            there.sql`
              SELECT 1
              FROM pg_stat_activity
              WHERE datname = current_database()
                AND wait_event_type = 'Lock'
                AND query LIKE 'WITH deleted AS%'
            `,
            (rows) => rows.length > 0
          )
        })
        const aborted = yield* Effect.exit(there.command(importOrganization(reading(lines, abort))))
        assert.deepStrictEqual(aborted, Exit.fail(moveEnded))
        assert.strictEqual(yield* Fiber.join(aborting ?? assert.fail("no abort")), "discarded")
        assert.deepStrictEqual(yield* there.sql`SELECT FROM run_metadata`, [])
        assert.strictEqual(yield* stateOf(there), "discarded open")
      }).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "a replica that stops while an import reads does not make it fail",
    () =>
      Effect.gen(function* () {
        const here = yield* startCommandCell
        const there = yield* startCommandCell
        yield* here.createOrganization
        const copy = yield* there.command(importOrganization(reading(yield* copyFrom(here))))
        const lines = yield* exportFrom(here, { sinceCopy: copy.receipt })
        const killed = there.sql`
          INSERT INTO delivery_owners (owner, lease_until)
          VALUES ('killed', clock_timestamp() + interval '3 seconds')
        `
        yield* there.command(importOrganization(reading(lines, killed), () => undefined, 8_000))
        assert.strictEqual(yield* stateOf(there), "staged fenced")
      }).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "an organization that leaves again before its old copy was deleted keeps the code that deletes that",
    () =>
      Effect.gen(function* () {
        const here = yield* startCommandCell
        const there = yield* startCommandCell
        yield* here.createOrganization
        const lines = yield* exportFrom(here)
        const { receipt } = yield* there.command(importOrganization(reading(lines)))
        const release = yield* here.command(commitMove("acme", receipt, null))
        const activation = yield* there.command(activateMove("acme", release))

        // For a third installation; an export is repeated.
        yield* exportFrom(there)
        yield* exportFrom(there)
        assert.strictEqual(yield* stateOf(there), "frozen fenced")
        assert.strictEqual(yield* there.command(activateMove("acme", release)), activation)
        assert.strictEqual(yield* stateOf(there), "frozen fenced")
        assert.isAbove((yield* countFences(there)) ?? 0, 0)
        assert.isTrue(Exit.isFailure(yield* Effect.exit(there.command(activateMove("acme", receipt)))))

        assert.strictEqual(yield* there.command(abortMove("acme")), "active")
        assert.strictEqual(yield* stateOf(there), "arrived open")
        assert.strictEqual(yield* there.command(activateMove("acme", release)), activation)
        yield* here.command(finishMove("acme", activation))
        assert.deepStrictEqual(yield* here.sql`SELECT FROM organizations WHERE name = 'acme'`, [])
        // The digests of a copy, if the deletion was killed before them.
        yield* here.sql`
          INSERT INTO organization_copies (org_id, copy_id, name, created_at, schema_version, row_count, receipt)
          SELECT org_id, 'copy', 'acme', now(), 1, 0, 'receipt' FROM organization_moves
        `
        assert.strictEqual(yield* here.command(abortMove("acme")), "uncopied")
      }).pipe(Effect.scoped),
    180_000
  )

  it.live(
    "an export ends when a migration was applied meanwhile, and migrations wait for a copy and an import",
    () =>
      Effect.gen(function* () {
        const here = yield* startCommandCell
        const there = yield* startCommandCell
        yield* here.createOrganization
        const organization = { org_id: yield* idOf(here), name: "acme" }
        /** Whether a migration could begin now, which locks its table. */
        const canMigrate = (cell: CommandCell) =>
          Effect.scoped(
            Effect.gen(function* () {
              const connection = yield* PgConnection.make({ url: cell.url })
              yield* connection.query("SET lock_timeout = '100ms'")
              yield* connection.query("BEGIN")
              const locked = yield* Effect.exit(
                connection.query("LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE")
              )
              return Exit.isSuccess(locked)
            })
          )
        const tries: Array<boolean> = []
        const tryIn = (cell: CommandCell) =>
          Effect.andThen(canMigrate(cell), (possible) => Effect.sync(() => tries.push(possible)))
        const last = (writer: LineWriter, effect: Effect.Effect<unknown, unknown>): LineWriter => ({
          ...writer,
          write: async (line) => {
            await writer.write(line)
            if (line.startsWith('{"end":')) await Effect.runPromise(effect)
          }
        })
        yield* here.command(
          copyOrganization(organization, last(makeFile().writer, tryIn(here)), TRANSFER_KEY)
        )
        const lines = yield* exportFrom(here)
        yield* there.command(importOrganization(reading(lines, tryIn(there))))
        assert.deepStrictEqual(tries, [false, false])
        assert.isTrue(yield* canMigrate(here))

        const { writer } = makeFile()
        let isMigrated = false
        const exporting = exportOrganization(
          organization,
          {
            ...writer,
            write: async (line) => {
              if (line.startsWith('{"table":') && !isMigrated) {
                isMigrated = true
                await Effect.runPromise(
                  here.sql`INSERT INTO schema_migrations (migration_id, name) VALUES (9999, 'later')`
                )
              }
            }
          },
          { transferKey: TRANSFER_KEY }
        )
        const ended = yield* Effect.exit(here.command(exporting))
        assert.match(
          Exit.isFailure(ended) ? String(Cause.squash(ended.cause)) : "",
          /the database has schema version 9999/
        )
        const [move] = yield* here.sql<{
          readonly exported: boolean
        }>`SELECT row_count IS NOT NULL AS exported FROM organization_moves`
        assert.isFalse(move?.exported)
      }).pipe(Effect.scoped),
    120_000
  )
})
