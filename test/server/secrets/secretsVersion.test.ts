import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { sealedColumns } from "../../../src/server/secrets/SecretBox/sealedColumns.ts"
import { TestDatabase } from "../../support/postgres.ts"

/** Columns whose credentials are written together with another column, which raises the version. */
const writtenTogether: ReadonlyMap<string, string> = new Map([
  // A rotation moves the current secret here.
  ["notification_endpoints.previous_secret", "notification_endpoints.secret"]
])

layer(TestDatabase.layerSql, { excludeTestServices: true })("secretsVersion", (it) => {
  it.effect(
    "every statement that writes a column with credentials raises the version of the organization",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const triggers = yield* sql<{
          readonly table: string
          readonly column: string
          readonly inserts: boolean
          readonly updates: boolean
        }>`
        SELECT
          t.tgrelid::regclass::text AS "table",
          a.attname::text AS "column",
          t.tgtype::int & 4 > 0 AS inserts,
          t.tgtype::int & 16 > 0 AS updates
        FROM pg_trigger t
        JOIN pg_attribute a ON a.attrelid = t.tgrelid AND a.attnum = ANY(t.tgattr)
        WHERE t.tgfoid = 'secret_changed'::regproc
          AND t.tgenabled = 'O'
          AND t.tginitdeferred
          -- Any other condition would miss some. An import writes the version of the other installation itself.
          AND (
            t.tgqual IS NULL
            OR pg_get_triggerdef(t.oid) LIKE ${`%WHEN ((current_setting('countersign.importing'::text, true) IS DISTINCT FROM 'on'::text))%`}
          )
      `
        const covered = new Set(
          triggers
            .filter(({ inserts, updates }) => inserts && updates)
            .map(({ column, table }) => `${table}.${column}`)
        )
        const credentials = sealedColumns
          .filter((sealed) => sealed.credentials !== undefined)
          .map(({ column, table }) => `${table}.${column}`)
        assert.isAbove(credentials.length, 4)
        assert.deepStrictEqual(
          credentials.filter((name) => !covered.has(writtenTogether.get(name) ?? name)),
          []
        )
        // The redaction rules count as secrets, so that a replica reads both again.
        assert.isTrue(covered.has("redaction_settings.rules"))
      })
  )

  it.effect(
    "a version is raised by the commit, once for each write, also by a statement that no operation has",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const org_id = `org_${"7".repeat(32)}`
        const version = sql<{ readonly change_count: number }>`
        SELECT change_count::int AS change_count FROM secret_changes WHERE org_id = ${org_id}
      `
        const written = sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`INSERT INTO redaction_settings (org_id, revision, rules) VALUES (${org_id}, 1, '{}')`
            yield* sql`UPDATE redaction_settings SET rules = '{"a": 1}' WHERE org_id = ${org_id}`
            // Not before: the row would stay locked during the rest of the transaction.
            assert.deepStrictEqual(yield* version, [])
          })
        )
        yield* written
        assert.deepStrictEqual(yield* version, [{ change_count: 2 }])
        yield* sql`UPDATE redaction_settings SET revision = 2 WHERE org_id = ${org_id}`
        assert.deepStrictEqual(yield* version, [{ change_count: 2 }])
      })
  )
})
