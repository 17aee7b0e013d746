import { assert, describe, it } from "@effect/vitest"
import { PgConnection } from "@effect/sql-pg"
import { Effect } from "effect"
import path from "node:path"
import { listMovedTables, type MovedTable } from "../../../src/server/cells/movedTables.ts"
import {
  type Cell,
  countFences,
  dump,
  fillEmptyTables,
  idOf,
  startCell,
  succeed,
  temporaryDirectory
} from "../../support/cells.ts"
import { eventually } from "../../support/eventually.ts"
import { seedOneOfEach } from "../../support/seedOneOfEach/seedOneOfEach.ts"
import { send } from "../../support/service.ts"

/** Writes rows of the source directly, without the triggers that would change other tables with them. */
const connect = Effect.fnUntraced(function* (cell: Cell) {
  const connection = yield* PgConnection.make({ url: cell.url })
  for (const setting of ["importing", "audit_retention", "keeps_feedback_counts"]) {
    yield* connection.query(`SET countersign.${setting} = 'on'`)
  }
  const run = (text: string) => Effect.map(connection.query(text), ({ rows }) => rows)
  return {
    run,
    /** Whether a statement changed a row; a constraint may refuse it. */
    tries: (text: string) =>
      Effect.map(
        Effect.exit(run(`${text} RETURNING 1`)),
        (exit) => exit._tag === "Success" && exit.value.length > 0
      )
  }
})
type Connection = Effect.Success<ReturnType<typeof connect>>

/** Another value of a type. */
const others: Readonly<Record<string, string>> = {
  text: "|| 'z'",
  integer: "+ 1",
  smallint: "+ 1",
  bigint: "+ 1",
  boolean: "= false",
  "timestamp with time zone": "+ interval '1 microsecond'",
  date: "+ 1",
  bytea: String.raw`|| '\x01'`
}

/** Changes one column of one row. Returns whether a column could be changed. */
const changeRow = Effect.fnUntraced(function* (here: Connection, table: MovedTable, org_id: string) {
  const key = new Set(["org_id", ...table.key.map(({ name }) => name)])
  // The append-only tables are changed by deletion and insertion only.
  if (table.name.startsWith("audit_")) return false
  for (const { name, type } of table.columns.filter((column) => !key.has(column.name))) {
    const other = others[type]
    if (other === undefined) continue
    const row = `ctid = (SELECT ctid FROM "${table.name}" WHERE org_id = '${org_id}' AND "${name}" IS NOT NULL LIMIT 1)`
    if (yield* here.tries(`UPDATE "${table.name}" SET "${name}" = "${name}" ${other} WHERE ${row}`))
      return true
  }
  return false
})

const firstRow = (table: string, org_id: string) =>
  `ctid = (SELECT ctid FROM "${table}" WHERE org_id = '${org_id}' LIMIT 1)`

/** Takes a row out of a table, and returns what inserts it again: whether there was one. */
const takeOut = Effect.fnUntraced(function* (here: Connection, { name }: MovedTable, org_id: string) {
  yield* here.run(`CREATE TEMPORARY TABLE IF NOT EXISTS "taken_${name}" AS SELECT * FROM "${name}" LIMIT 0`)
  yield* here.run(
    `WITH taken AS (DELETE FROM "${name}" WHERE ${firstRow(name, org_id)} RETURNING *) INSERT INTO "taken_${name}" SELECT * FROM taken`
  )
  // A worker of the service may have written it again.
  return here.tries(
    `WITH taken AS (DELETE FROM "taken_${name}" RETURNING *) INSERT INTO "${name}" SELECT * FROM taken ON CONFLICT DO NOTHING`
  )
})

describe("a move after a copy", () => {
  it.live(
    "has every row that was added, changed or deleted since the copy, in every table",
    () =>
      Effect.gen(function* () {
        const here = yield* startCell
        const there = yield* startCell
        const directory = yield* temporaryDirectory
        const { key } = yield* here.run(seedOneOfEach("acme"))
        const org_id = yield* idOf(here, "acme")
        const transferKey = succeed(yield* there.cli("org", "prepare"))
        yield* here.run(fillEmptyTables(here, org_id))
        const source = yield* connect(here)
        const copied = (yield* listMovedTables(here.sql)).filter(({ isCopied }) => isCopied)
        assert.isAbove(copied.length, 35)
        const [added, removed, changed] = [new Set<string>(), new Set<string>(), new Set<string>()]

        // Each table is changed in each of the three ways, in one of three moves; the first two are aborted.
        for (const round of [0, 1, 2]) {
          const wayOf = (index: number) => (index + round) % 3
          const file = (name: string) => path.join(directory, `${name}-${round}`)
          const puts: Array<readonly [string, Effect.Effect<boolean>]> = []
          const taken: Array<readonly [string, Effect.Effect<boolean>]> = []
          for (const [index, table] of copied.entries()) {
            // Without its row, the rows of its children would be gone too.
            if (wayOf(index) === 0 && !table.isParent) {
              puts.push([table.name, yield* takeOut(source, table, org_id)])
            }
          }
          succeed(yield* here.cli("org", "copy", "acme", "--for", transferKey, "--to", file("copy")))
          const receipt = succeed(yield* there.cli("org", "import", file("copy")))
          // A repeated import changes nothing.
          assert.strictEqual(succeed(yield* there.cli("org", "import", file("copy"))), receipt)
          // Nobody can see or use it.
          assert.strictEqual(yield* idOf(there, "acme"), "")
          // Its key may still be cached from the round before.
          yield* eventually(there.run(send("/v1/tasks", { key })), ({ status }) => status === 401)
          assert.strictEqual((yield* here.run(send("/v1/tasks", { key }))).status, 200)

          for (const [name, put] of puts) if (yield* put) added.add(name)
          for (const [index, table] of copied.entries()) {
            const { name } = table
            if (wayOf(index) === 1) taken.push([name, yield* takeOut(source, table, org_id)])
            if (wayOf(index) === 2 && (yield* changeRow(source, table, org_id))) changed.add(name)
          }
          // A new row where there were none, and the organization's own row.
          yield* here.run(send("/v1/agent-sessions", { method: "POST", key, body: "{}" }))

          const since = ["--since-copy", receipt]
          const move = ["org", "export", "acme", "--for", transferKey, "--to", file("move"), ...since]
          assert.match((yield* here.cli(...move)).err, /^Exported \d+ rows of acme/)
          const before = yield* dump(here, org_id)
          const imported = succeed(yield* there.cli("org", "import", file("move")))
          assert.deepStrictEqual(yield* dump(there, org_id), before, `round ${round}`)
          assert.strictEqual((yield* there.run(send("/v1/tasks", { key }))).status, 503)

          if (round < 2) {
            succeed(yield* there.cli("org", "abort", "acme"))
            succeed(yield* here.cli("org", "abort", "acme"))
            const left = yield* dump(there, org_id)
            assert.deepStrictEqual(
              Object.keys(left).filter((table) => left[table]?.length !== 0),
              []
            )
            assert.strictEqual(yield* countFences(there), 0)
            assert.deepStrictEqual(yield* here.sql`SELECT 1 FROM organization_copy_rows`, [])
            // For the next round.
            for (const [name, put] of taken) if (yield* put) removed.add(name)
            continue
          }
          const release = succeed(yield* here.cli("org", "commit", "acme", "--receipt", imported))
          const activation = succeed(yield* there.cli("org", "activate", "acme", "--release", release))
          const used = yield* eventually(
            there.run(send("/v1/tasks", { key })),
            ({ status }) => status === 200
          )
          assert.strictEqual(used.status, 200)
          succeed(yield* here.cli("org", "finish", "acme", "--activation", activation))
          for (const [name, put] of taken) if (yield* put) removed.add(name)
          assert.deepStrictEqual(yield* here.sql`SELECT 1 FROM organization_copies`, [])
          assert.deepStrictEqual(yield* here.sql`SELECT 1 FROM organization_copy_rows`, [])
        }
        const not = (done: ReadonlySet<string>) => copied.filter(({ name }) => !done.has(name))
        const hasOther = ({ columns, key: keyColumns, name }: MovedTable) =>
          !name.startsWith("audit_") &&
          columns.some(
            (column) =>
              column.name !== "org_id" && !keyColumns.includes(column) && others[column.type] !== undefined
          )
        // Deleted with its session.
        const isChild = ({ name }: MovedTable) => name === "search_documents"
        assert.deepStrictEqual(
          [
            not(added).filter((table) => !table.isParent && !isChild(table)),
            not(removed).filter((table) => !isChild(table)),
            not(changed).filter((table) => hasOther(table) && !isChild(table))
          ].map((tables) => tables.map(({ name }) => name)),
          [[], [], []]
        )
      }).pipe(Effect.scoped),
    300_000
  )
})
