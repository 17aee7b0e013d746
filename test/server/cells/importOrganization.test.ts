import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { OrgId } from "../../../src/domain/Ids.ts"
import { importOrganization } from "../../../src/server/cells/importOrganization.ts"
import { listMovedTables } from "../../../src/server/cells/movedTables.ts"
import { codeDigest, makeCode } from "../../../src/server/cells/moveState.ts"
import { makeRowsDigest } from "../../../src/server/cells/rowsDigest.ts"
import { SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import { latestMigration } from "../../../src/server/store/Database/schemaVersion.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { TestDatabase } from "../../support/postgres.ts"

const layers = Layer.mergeAll(
  SecretBox.layer({ masterKeys: [Redacted.make(randomBytes(32).toString("base64"))] }),
  StoreClock.layer
).pipe(Layer.provideMerge(TestDatabase.layerSql))

interface Content {
  readonly schema?: number
  /** Tables of the header, in place of those of the database. */
  readonly tables?: ReadonlyArray<{ readonly name: string; readonly columns: ReadonlyArray<string> }>
  /** Rows of tables, by name. */
  readonly rows?: Readonly<Record<string, ReadonlyArray<Readonly<Record<string, string | null>>>>>
  /** Raw lines after the rows of `organizations`. */
  readonly raw?: ReadonlyArray<string>
  /** Lines to leave out at the end. */
  readonly cut?: number
}

const TIME = "2026-01-02 03:04:05+00"

/** The lines of a file for an organization with one row in `organizations`, and others as given. */
const linesFor = Effect.fnUntraced(function* (org_id: string, content: Content) {
  const tables = yield* listMovedTables(yield* SqlClient.SqlClient)
  const rows = {
    organizations: [{ org_id, name: `name of ${org_id}`, created_at: TIME }],
    ...content.rows
  }
  const digests: Record<string, unknown> = {}
  const lines = [
    JSON.stringify({
      format: "countersign-organization",
      version: 1,
      schema: content.schema ?? latestMigration,
      move_id: makeCode(),
      org_id,
      name: `name of ${org_id}`,
      release: codeDigest("x"),
      tables:
        content.tables ??
        tables.map(({ columns, name }) => ({ name, columns: columns.map((column) => column.name) }))
    })
  ]
  for (const { columns, name } of tables) {
    lines.push(JSON.stringify({ table: name }))
    const digest = makeRowsDigest()
    for (const row of Object.entries(rows).find(([table]) => table === name)?.[1] ?? []) {
      const values = new Map(Object.entries(row))
      const line = JSON.stringify(columns.map((column) => values.get(column.name) ?? null))
      digest.add(line)
      lines.push(line)
    }
    if (name === "organizations") lines.push(...(content.raw ?? []))
    digests[name] = digest.result()
  }
  lines.push(JSON.stringify({ end: true, tables: digests, receipt: "receipt", activation: "activation" }))
  return lines.slice(0, lines.length - (content.cut ?? 0))
})

async function* each(lines: ReadonlyArray<string>) {
  yield* lines
}

layer(layers, { excludeTestServices: true, timeout: "120 seconds" })(
  "the import of an organization",
  (it) => {
    const refusal = Effect.fnUntraced(function* (content: Content) {
      const org_id = yield* OrgId.generate
      const exit = yield* Effect.exit(importOrganization(each(yield* linesFor(org_id, content))))
      const sql = yield* SqlClient.SqlClient
      for (const { name } of yield* listMovedTables(sql)) {
        const found = yield* sql.unsafe(`SELECT 1 AS found FROM "${name}" WHERE org_id <> $1`, ["existing"])
        assert.deepStrictEqual(found, [], `${name} after ${JSON.stringify(content).slice(0, 200)}`)
      }
      if (Exit.isSuccess(exit)) return assert.fail("a refusal")
      const error = Cause.squash(exit.cause)
      return error instanceof Error ? error.message : String(error)
    })
    const existing = Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
      INSERT INTO organizations (org_id, name, created_at)
      VALUES ('existing', 'existing', now())
      ON CONFLICT DO NOTHING
    `
    })

    it.effect("refuses another schema version, and other tables and columns", () =>
      Effect.gen(function* () {
        yield* existing
        assert.match(
          yield* refusal({ schema: latestMigration - 1 }),
          /schema version .* Upgrade the older one/
        )
        const tables = (yield* listMovedTables(yield* SqlClient.SqlClient)).map(({ columns, name }) => ({
          name,
          columns: columns.map((column) => column.name)
        }))
        assert.match(yield* refusal({ tables: tables.slice(1) }), /tables of the file differ/)
        assert.match(
          yield* refusal({ tables: [...tables, { name: "schema_migrations", columns: ["name"] }] }),
          /tables of the file differ/
        )
        assert.match(
          yield* refusal({
            tables: tables.map((table) => ({ ...table, columns: table.columns.toReversed() }))
          }),
          /tables of the file differ/
        )
      })
    )

    it.effect("refuses rows of other organizations, rows of the wrong form, and other lines", () =>
      Effect.gen(function* () {
        yield* existing
        const settings = { org_id: "existing", revision: "1", rules: "[]" }
        assert.match(yield* refusal({ rows: { redaction_settings: [settings] } }), /not that of an export/)
        for (const raw of [
          '["org_1"]',
          "[]",
          "[1,2,3]",
          "nonsense",
          '{"table":"pg_authid"}',
          '{"table":"organizations; DROP TABLE runs"}',
          '[["a"],null,null]',
          "["
        ]) {
          assert.match(yield* refusal({ raw: [raw] }), /not that of an export/, raw)
        }
      })
    )

    it.effect(
      "refuses a file without its end, or with values that PostgreSQL refuses, and imports nothing",
      () =>
        Effect.gen(function* () {
          yield* existing
          assert.match(yield* refusal({ cut: 1 }), /not that of an export/)
          assert.match(yield* refusal({ cut: 5 }), /not that of an export/)
          const key = {
            public_id: "p",
            digest: "\\x00",
            name: "n",
            created_at: TIME,
            groups: "{}",
            scopes: "{}"
          }
          // No organization, and a value that is no time.
          assert.isNotEmpty(yield* refusal({ rows: { organizations: [] } }))
          const row = (org_id: string, created_at: string) => ({ ...key, org_id, key_id: "k", created_at })
          const org_id = yield* OrgId.generate
          const lines = yield* linesFor(org_id, {
            rows: { api_keys: [row(org_id, "'); DROP TABLE runs; --")] }
          })
          assert.isTrue(Exit.isFailure(yield* Effect.exit(importOrganization(each(lines)))))
          const sql = yield* SqlClient.SqlClient
          const [left] = yield* sql<{
            readonly count: number
          }>`SELECT count(*)::int AS count FROM organizations`
          assert.strictEqual(left?.count, 1)
        })
    )

    it.effect("refuses an organization that is here already, by its id or its name", () =>
      Effect.gen(function* () {
        yield* existing
        const sql = yield* SqlClient.SqlClient
        const org_id = yield* OrgId.generate
        yield* sql`INSERT INTO organizations (org_id, name, created_at) VALUES (${org_id}, 'other', now())`
        const again = yield* Effect.flip(importOrganization(each(yield* linesFor(org_id, {}))))
        assert.match(String(again), /has an organization named .* already/)
        yield* sql`DELETE FROM organizations WHERE org_id = ${org_id}`
        yield* sql`UPDATE organizations SET name = ${`name of ${org_id}`} WHERE org_id = 'existing'`
        const named = yield* Effect.flip(importOrganization(each(yield* linesFor(org_id, {}))))
        assert.match(String(named), /has an organization named .* already/)
        yield* sql`UPDATE organizations SET name = 'existing' WHERE org_id = 'existing'`
      })
    )
  }
)
