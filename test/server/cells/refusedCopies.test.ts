import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Cause } from "effect"
import { copyOrganization } from "../../../src/server/cells/copyOrganization.ts"
import { exportOrganization } from "../../../src/server/cells/exportOrganization.ts"
import { abortMove } from "../../../src/server/cells/finishMove.ts"
import { importOrganization } from "../../../src/server/cells/importOrganization.ts"
import { listMovedTables } from "../../../src/server/cells/movedTables.ts"
import { makeRowsDigest } from "../../../src/server/cells/rowsDigest.ts"
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

const importTo = (cell: CommandCell, lines: ReadonlyArray<string>) =>
  cell.command(importOrganization(reading(lines)))

/** The message of a command that is refused. */
const refusal = <A, E>(command: Effect.Effect<A, E>) =>
  Effect.map(Effect.exit(command), (exit) =>
    Exit.isSuccess(exit) ? assert.fail("a refusal") : String(Cause.squash(exit.cause))
  )

/** Counts rows of the organization that a copy has. */
const countRuns = (cell: CommandCell) =>
  Effect.map(
    cell.sql<{ readonly count: number }>`SELECT count(*)::int AS count FROM run_metadata`,
    ([row]) => row?.count
  )

const addRuns = (cell: CommandCell, prefix: string) => cell.sql`
  INSERT INTO run_metadata (org_id, task_id, digest, run_id)
  SELECT org_id, 'tsk', decode(md5(i::text), 'hex'), ${prefix}::text || i
  FROM organizations, generate_series(1, 10) AS i
`

/** A copy with a row that the organization does not have, as its author would make it: with the digest of its rows. */
const alter = (lines: ReadonlyArray<string>) => {
  const digest = makeRowsDigest()
  const start = lines.indexOf('{"table":"run_metadata"}')
  const end = lines.findIndex((line, index) => index > start && !line.startsWith("["))
  const altered = lines.map((line, index) => (index === start + 1 ? line.replace("run_", "forged_") : line))
  altered.slice(start + 1, end).forEach(digest.add)
  const last: { readonly tables: object } = JSON.parse(lines.at(-1) ?? "")
  const tables = { ...last.tables, run_metadata: digest.result() }
  return [...altered.slice(0, -1), JSON.stringify({ ...last, tables })]
}

describe("a copy of an organization", () => {
  it.live(
    "is completed only by an export that was made for it, and only if it was loaded as it was made",
    () =>
      Effect.gen(function* () {
        const here = yield* startCommandCell
        const there = yield* startCommandCell
        yield* here.createOrganization
        yield* addRuns(here, "run_")
        const exportSince = (sinceCopy: string) => exportFrom(here, { sinceCopy })

        // Before there is a copy, and with the code of another one, nothing is frozen.
        assert.match(yield* refusal(exportSince("0".repeat(32))), /not that of the last copy of acme/)
        const earlier = yield* copyFrom(here)
        const first = yield* importTo(there, earlier)
        assert.isTrue(first.isCopy)
        const copy = yield* copyFrom(here)
        assert.match(yield* refusal(exportSince(first.receipt)), /not that of the last copy of acme/)
        assert.strictEqual(yield* stateOf(here), "none")

        // Another copy does not replace the one that is loaded; an abort removes it.
        assert.match(yield* refusal(importTo(there, copy)), /A copy of acme is loaded here/)
        assert.strictEqual(yield* stateOf(there), "copied fenced")
        assert.strictEqual(yield* there.command(abortMove("acme")), "discarded")
        assert.deepStrictEqual([yield* countRuns(there), yield* countFences(there)], [0, 0])

        // One that was altered loads, but the export does not complete it.
        const forged = yield* importTo(there, alter(copy))
        yield* addRuns(here, "late_")
        const changes = yield* exportSince(forged.receipt)
        assert.isAbove(changes.length, 10)
        assert.strictEqual(changes.filter((line) => /"run_\d/.test(line)).length, 0)
        assert.match(
          yield* refusal(importTo(there, changes)),
          /rows of run_metadata differ from those of the file/
        )
        assert.strictEqual(yield* countRuns(there), 10)
        assert.strictEqual(yield* stateOf(there), "importing fenced")
        yield* there.command(abortMove("acme"))

        // The export is refused where the copy is not loaded, or an earlier one is.
        assert.match(yield* refusal(importTo(there, changes)), /since a copy that is not loaded here/)
        yield* importTo(there, earlier)
        assert.match(yield* refusal(importTo(there, changes)), /since a copy that is not loaded here/)
        yield* there.command(abortMove("acme"))

        // Keys to remove are accepted in tables of the copy only, and only with all columns of the key.
        yield* importTo(there, copy)
        const [table] = (yield* listMovedTables(there.sql)).filter(({ isCopied }) => !isCopied)
        for (const [name, key] of [
          [table?.name, "[]"],
          ["run_metadata", '["tsk"]'],
          ["run_metadata", "[1,2,3]"]
        ]) {
          const at = changes.indexOf(`{"table":"${name}"}`) + 1
          assert.isAbove(at, 0)
          const lines = [...changes.slice(0, at), `{"removed":${key}}`, ...changes.slice(at)]
          assert.match(yield* refusal(importTo(there, lines)), /not that of an export/)
        }

        // The whole export cannot be mixed with a copy. The one that belongs to it is imported, also after all of these.
        const whole = yield* exportFrom(here)
        assert.match(yield* refusal(importTo(there, whole)), /A copy of acme is loaded here/)
        const last = yield* exportSince(forged.receipt)
        const { isCopy } = yield* importTo(there, last)
        assert.isFalse(isCopy)
        assert.strictEqual(yield* countRuns(there), 20)
        assert.strictEqual(yield* stateOf(there), "staged fenced")

        // An abort in the old cell ends the copy too.
        assert.strictEqual(yield* here.command(abortMove("acme")), "active")
        assert.match(yield* refusal(exportSince(forged.receipt)), /not that of the last copy of acme/)

        // No export begins while a copy is made.
        const organization = { org_id: yield* idOf(here), name: "acme" }
        /** A file in memory; `effect` runs before its line that begins like this. */
        const writing = (start: string, effect: Effect.Effect<unknown, unknown>) => {
          const { lines, writer } = makeFile()
          const write = async (line: string) => {
            if (line.startsWith(start)) await Effect.runPromise(effect)
            await writer.write(line)
          }
          return { lines, writer: { ...writer, write } }
        }
        const early: Array<string> = []
        const exportEarly = Effect.map(refusal(exportFrom(here)), (message) => early.push(message))
        const { lines: newest, writer } = writing('{"end":', exportEarly)
        yield* here.command(copyOrganization(organization, writer, TRANSFER_KEY))
        assert.match(
          early.join(),
          /^MoveRefused: Another command is copying acme\. .* Nothing was changed\.$/
        )
        assert.strictEqual(yield* stateOf(here), "none")

        // A copy that is replaced while an export compares with it.
        yield* there.command(abortMove("acme"))
        const { receipt: sinceCopy } = yield* importTo(there, newest)
        const replace = here.sql`UPDATE organization_copies SET copy_id = 'another'`
        const exporting = exportOrganization(
          organization,
          writing('{"table":"run_metadata"}', replace).writer,
          {
            transferKey: TRANSFER_KEY,
            sinceCopy
          }
        )
        assert.match(yield* refusal(here.command(exporting)), /copied acme again, or ended its copy/)
        assert.strictEqual(yield* here.command(abortMove("acme")), "active")
        yield* copyFrom(here)
        assert.strictEqual(yield* here.command(abortMove("acme")), "uncopied")
        assert.deepStrictEqual(yield* here.sql`SELECT 1 FROM organization_copy_rows`, [])
        assert.strictEqual(yield* stateOf(here), "none")
        assert.notStrictEqual(yield* idOf(here), "")
      }).pipe(Effect.scoped),
    240_000
  )

  it.live("is completed without triggers that would change rows of other tables", () =>
    Effect.gen(function* () {
      const cell = yield* startCommandCell
      const tables = yield* listMovedTables(cell.sql)
      const names = tables.map(({ name }) => name)
      const triggers = yield* cell.sql<{ readonly name: string; readonly definition: string }>`
        SELECT tgname::text AS name, pg_get_triggerdef(oid) AS definition
        FROM pg_trigger
        WHERE NOT tgisinternal
          AND tgrelid::regclass::text = ANY(string_to_array(${names.join(",")}, ','))
      `
      // Parents are updated in place; of the others, rows are deleted and inserted.
      const updated = tables.filter(({ isCopied, isParent }) => isCopied && isParent)
      const fires = triggers.filter(
        ({ definition }) =>
          !/countersign\.(?:importing|keeps_feedback_counts)/.test(definition) &&
          !/ BEFORE (?:DELETE OR UPDATE|TRUNCATE) .* audit_log_append_only\(\)/.test(definition) &&
          (/ (?:AFTER|BEFORE) UPDATE ON /.test(definition)
            ? updated.some(({ name }) => definition.includes(` ON public.${name} `))
            : true)
      )
      assert.deepStrictEqual(fires, [])
      assert.isAbove(triggers.length, 10)
    }).pipe(Effect.scoped)
  )
})
