import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { PgConnection } from "@effect/sql-pg"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { cellTables, listMovedTables } from "../../../src/server/cells/movedTables.ts"
import { placeOf, sealedColumns } from "../../../src/server/secrets/SecretBox/sealedColumns.ts"
import { SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { cli } from "../../support/cli.ts"
import { eventually } from "../../support/eventually.ts"
import { cloneDatabase } from "../../support/postgres.ts"
import { seedEnvironment, seedOneOfEach } from "../../support/seedOneOfEach/seedOneOfEach.ts"
import { send } from "../../support/service.ts"

/** An installation: a running service, and its command line. */
const startCell = Effect.gen(function* () {
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
type Cell = Effect.Success<typeof startCell>

/** The output of a command that succeeds. */
const succeed = (outcome: { readonly ok: boolean; readonly out: string; readonly err: string }) => {
  assert.isTrue(outcome.ok, outcome.err)
  return outcome.out.trim()
}

/** The rows of every table with a column `org_id`, without what differs between installations. Does not use the export's own list. */
const dump = (cell: Cell, organization: string) =>
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

const idOf = (cell: Cell, name: string) =>
  Effect.map(
    cell.sql<{ readonly org_id: string }>`SELECT org_id FROM organizations WHERE name = ${name}`,
    ([row]) => row?.org_id ?? ""
  )

const fences = (cell: Cell) =>
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
const fillEmptyTables = Effect.fnUntraced(function* (cell: Cell, organization: string) {
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

const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-move-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
)

describe("a move of an organization", () => {
  it.live(
    "takes every row of it to the other installation, and nothing of others",
    () =>
      Effect.gen(function* () {
        const here = yield* startCell
        const there = yield* startCell
        const directory = yield* temporaryDirectory
        const file = path.join(directory, "acme.move")
        const seeded = yield* here.run(seedOneOfEach("acme"))
        yield* here.run(Effect.flatMap(Countersign, ({ key }) => key({}, "neighbour")))
        const org_id = yield* idOf(here, "acme")
        const neighbour = yield* idOf(here, "neighbour")
        const { key } = seeded
        yield* here.run(fillEmptyTables(here, org_id))
        // After the rows of other tables: the key of a person cannot be reported.
        const leaked = yield* here.run(
          Effect.flatMap(Countersign, (countersign) => countersign.key({}, "acme"))
        )

        const transferKey = succeed(yield* there.cli("org", "prepare"))
        const exported = yield* here.cli("org", "export", "acme", "--for", transferKey, "--to", file)
        assert.match(exported.err, /^Exported \d+ rows of acme/)
        assert.isTrue(exported.ok, exported.err)
        assert.strictEqual(statSync(file).mode & 0o777, 0o600)
        // The same command again would discard the codes of this export, and has no file to write to.
        const repeated = yield* here.cli("org", "export", "acme", "--for", transferKey, "--to", file)
        assert.isFalse(repeated.ok)
        assert.match(repeated.err, /Could not create .*EEXIST.* Nothing was changed\./)

        // Frozen: reads go on, writes get 503 and the time to retry after.
        const read = yield* here.run(send("/v1/tasks", { key }))
        assert.strictEqual(read.status, 200)
        const refused = yield* here.run(send("/v1/agent-sessions", { method: "POST", key, body: "{}" }))
        assert.strictEqual(refused.status, 503)
        assert.strictEqual(refused.body["code"], "UNAVAILABLE")
        assert.match(String(refused.body["detail"]), /is moving to another installation/)
        assert.strictEqual(refused.headers.get("retry-after"), "5")
        // A report of leaked keys revokes those of others, and is to be repeated for that of the frozen organization.
        const report = (...keys: ReadonlyArray<Redacted.Redacted>) =>
          here.run(
            Effect.map(
              send("/leaked-keys", {
                method: "POST",
                body: JSON.stringify(
                  keys.map((one) => ({ token: Redacted.value(one), type: "csk", url: "" }))
                )
              }),
              ({ status }) => status
            )
          )
        const spare = yield* here.run(
          Effect.flatMap(Countersign, (countersign) => countersign.key({}, "neighbour"))
        )
        assert.strictEqual(yield* report(leaked, spare), 503)
        assert.strictEqual((yield* here.run(send("/v1/tasks", { key: spare }))).status, 401)
        assert.strictEqual((yield* here.run(send("/v1/tasks", { key: leaked }))).status, 200)
        // A process that knows nothing of the move cannot write either.
        const connection = yield* PgConnection.make({ url: here.url })
        const direct = yield* Effect.exit(
          connection.query(`UPDATE tasks SET name = 'changed' WHERE org_id = '${org_id}'`)
        )
        assert.strictEqual(direct._tag, "Failure")
        // Results of deliveries are skipped, in partitions too: the batch that they are in has others' results.
        const skipped = yield* connection.query(
          `UPDATE delivery_attempts SET org_id = org_id WHERE org_id = '${org_id}' RETURNING 1`
        )
        assert.lengthOf(skipped.rows, 0)
        const before = yield* dump(here, org_id)
        const others = yield* dump(here, neighbour)
        // Every table has rows, so that one which is left behind would be missed.
        assert.deepStrictEqual(
          Object.keys(before).filter((table) => before[table]?.length === 0),
          []
        )

        const receipt = succeed(yield* there.cli("org", "import", file))
        assert.deepStrictEqual(yield* dump(there, org_id), before)
        // A repeated import changes nothing.
        assert.strictEqual(succeed(yield* there.cli("org", "import", file)), receipt)
        const early = yield* there.run(send("/v1/tasks", { key }))
        assert.strictEqual(early.status, 503)

        // Neither side can go on without the other's proof.
        assert.isFalse((yield* there.cli("org", "activate", "acme", "--release", receipt)).ok)
        assert.isFalse((yield* here.cli("org", "commit", "acme", "--receipt", "0".repeat(32))).ok)
        assert.isFalse((yield* here.cli("org", "finish", "acme", "--activation", receipt)).ok)

        const commit = ["org", "commit", "acme", "--receipt", receipt, "--moved-to", "https://two.example"]
        const release = succeed(yield* here.cli(...commit))
        assert.strictEqual(succeed(yield* here.cli(...commit)), release)
        assert.match((yield* here.cli("org", "abort", "acme")).err, /belongs to the other installation/)
        const moved = yield* eventually(here.run(send("/v1/tasks", { key })), ({ status }) => status !== 200)
        assert.strictEqual(moved.status, 421)
        assert.strictEqual(moved.body["code"], "ORGANIZATION_MOVED")
        assert.strictEqual(yield* report(leaked), 204)
        assert.strictEqual(moved.body["moved_to"], "https://two.example")

        const activate = ["org", "activate", "acme", "--release", release]
        const activation = succeed(yield* there.cli(...activate))
        assert.strictEqual(succeed(yield* there.cli(...activate)), activation)
        assert.strictEqual(yield* fences(there), 0)
        const listed = yield* eventually(
          there.run(send("/v1/tasks", { key })),
          ({ status }) => status === 200
        )
        assert.strictEqual(listed.status, 200)
        // Secrets are sealed by the other key ring, and can be used.
        const log = succeed(yield* there.cli("audit", "export", "--org", "acme"))
        writeFileSync(path.join(directory, "audit.jsonl"), `${log}\n`)
        assert.match(log, /"action":"organization.moved"/)
        assert.match(
          succeed(yield* there.cli("audit", "verify", path.join(directory, "audit.jsonl"))),
          /^Verified \d+ entries/
        )
        const session = yield* there.run(send("/v1/agent-sessions", { method: "POST", key, body: "{}" }))
        assert.strictEqual(session.status, 201)

        const finish = ["org", "finish", "acme", "--activation", activation]
        assert.match(succeed(yield* here.cli(...finish)), /^Deleted \d+ rows/)
        assert.match(succeed(yield* here.cli(...finish)), /^Deleted 0 rows/)
        const left = yield* dump(here, org_id)
        assert.deepStrictEqual(
          Object.keys(left).filter((table) => left[table]?.length !== 0),
          []
        )
        assert.deepStrictEqual(yield* dump(here, neighbour), others)
        assert.strictEqual(yield* fences(here), 0)
      }).pipe(Effect.scoped),
    180_000
  )
})
