/** Two installations, and what tests of moves between them compare. */
import { assert } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { cellTables, listMovedTables } from "../../src/server/cells/movedTables.ts"
import { SecretBox } from "../../src/server/secrets/SecretBox.ts"
import { placeOf, sealedColumns } from "../../src/server/secrets/SecretBox/sealedColumns.ts"
import { Countersign } from "../../src/testing/index.ts"
import { cli } from "./cli.ts"
import { cloneDatabase } from "./postgres.ts"
import { seedEnvironment } from "./seedOneOfEach/seedOneOfEach.ts"

/** An installation: a running service, and its command line. */
export const startCell = Effect.gen(function* () {
  const databaseUrl = yield* cloneDatabase
  const environment = { ...seedEnvironment, COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64") }
  const context = yield* Layer.build(Layer.fresh(Countersign.layer({ databaseUrl, environment })))
  return {
    run: <A, E, R>(use: Effect.Effect<A, E, R>) => Effect.provideContext(use, context),
    sql: Context.get(context, SqlClient.SqlClient),
    url: databaseUrl,
    cli: (...args: ReadonlyArray<string>) =>
      cli(args, { ...environment, DATABASE_URL: Redacted.value(databaseUrl) })
  }
})
/** A running installation. */
export type Cell = Effect.Success<typeof startCell>

/** The output of a command that succeeds. */
export const succeed = (outcome: { readonly ok: boolean; readonly out: string; readonly err: string }) => {
  assert.isTrue(outcome.ok, outcome.err)
  return outcome.out.trim()
}

/** The rows of every table with a column `org_id`, without what differs between installations. Does not use the export's own list. */
export const dump = (cell: Cell, organization: string) =>
  Effect.gen(function* () {
    const { sql } = cell
    const tables = yield* sql<{ readonly name: string }>`
      SELECT c.relname::text AS name
      FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id'
      WHERE c.relnamespace = 'public'::regnamespace
        AND c.relkind IN ('r', 'p')
        AND NOT c.relispartition
      ORDER BY 1
    `
    const dumped: Record<string, ReadonlyArray<string>> = {}
    for (const { name } of tables.filter(({ name }) => !cellTables.includes(name))) {
      const hidden = [
        ...sealedColumns.filter(({ table }) => table === name).map(({ column }) => column),
        ...(name === "delivery_queue" ? ["shard", "seq"] : [])
      ]
      const rows = yield* sql.unsafe<{ readonly line: string }>(
        `SELECT (to_jsonb(t) - $2::text[])::text AS line FROM "${name}" t WHERE org_id = $1 ORDER BY 1`,
        [organization, hidden.length === 0 ? ["none"] : hidden]
      )
      dumped[name] = rows.map(({ line }) => line)
    }
    return dumped
  })

/** The id of the organization with this name. */
export const idOf = (cell: Cell, name: string) =>
  Effect.map(
    cell.sql<{ readonly org_id: string }>`SELECT org_id FROM organizations WHERE name = ${name}`,
    ([row]) => row?.org_id ?? ""
  )

/** The number of fence triggers. */
export const countFences = (cell: Cell) =>
  Effect.map(
    cell.sql<{ readonly count: number }>`
      SELECT count(*)::int AS count FROM pg_trigger WHERE tgname LIKE 'moving%'
    `,
    ([row]) => row?.count
  )

/** A value of each type, as text. Odd ones: the file must keep white space, fractions and line ends. */
const values: Readonly<Record<string, string>> = {
  text: "x",
  integer: "1",
  smallint: "1",
  bigint: "9007199254740993",
  boolean: "true",
  "double precision": "0.1",
  "timestamp with time zone": "2031-02-03 04:05:06.789012+00",
  date: "2031-02-03",
  bytea: String.raw`\x00ff`,
  json: '{ "b":1,  "a":\n1e400 }',
  jsonb: "[]",
  "text[]": '{"a,\\"b",NULL}',
  "integer[]": "{1,2}",
  tsvector: "'12345678:word':1"
}

/** Rows that refer to others. */
const references: Readonly<Record<string, string>> = {
  // More would be over the limits of an organization.
  "organization_usage.runs": "1",
  "organization_usage.feedback": "1",
  "organization_usage.bytes": "1",
  "people.key_id": "(SELECT key_id FROM api_keys WHERE org_id = $1 LIMIT 1)",
  "console_sessions.key_id": "(SELECT key_id FROM api_keys WHERE org_id = $1 LIMIT 1)",
  "search_documents.session_id": "(SELECT session_id FROM agent_sessions WHERE org_id = $1 LIMIT 1)"
}

/** Adds a row to every table of the organization that has none. */
export const fillEmptyTables = Effect.fnUntraced(function* (cell: Cell, organization: string) {
  const box = yield* SecretBox
  const rows = yield* dump(cell, organization)
  for (const { columns, name } of yield* listMovedTables(cell.sql)) {
    // A delivery that is queued now may be sent before the dump.
    if (rows[name]?.length !== 0 && name !== "delivery_queue") continue
    const filled = yield* Effect.forEach(columns, (column) =>
      Effect.gen(function* () {
        if (column.name === "org_id") return "$1::text"
        if (column.sealed !== undefined) {
          const place = placeOf(
            column.sealed,
            organization,
            column.sealed.key.map(() => "x")
          )
          const sealed = yield* box.sealBytes(place, Buffer.from([0, 255]))
          return String.raw`'\x${Buffer.from(sealed).toString("hex")}'::bytea`
        }
        const value = values[column.type] ?? assert.fail(`a value of ${column.type}`)
        return references[`${name}.${column.name}`] ?? `'${value.replaceAll("'", "''")}'::${column.type}`
      })
    )
    const extra = name === "delivery_queue" ? [", shard", ", 3"] : ["", ""]
    yield* cell.sql.unsafe(
      `INSERT INTO "${name}" (${columns.map((column) => column.name).join(", ")}${extra[0]}) VALUES (${filled.join(", ")}${extra[1]})`,
      [organization]
    )
  }
})

/** A directory that is removed at the end. */
export const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-move-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
)
