import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { readdirSync } from "node:fs"
import { migrations } from "../../../src/server/store/migrations/index.ts"
import { TestDatabase } from "../../support/postgres.ts"

/**
 * The SHA-256 of the statements of each migration. A database applies a migration once, so a changed one would leave the databases of a
 * release as they are: only the digest of a migration that is in no release may be replaced here.
 */
const digests: Record<string, string> = {
  "0001_first_release": "75fe62cf002e2827f166f4c26c4b273ad841a48e977ce38ac373edc7cf23af75"
}

describe("migrations", () => {
  it("every migration file is registered under its name, in the order of the numbers", () => {
    const files = readdirSync(new URL("../../../src/server/store/migrations/", import.meta.url))
      .filter((name) => /^\d{4}_\w+\.ts$/.test(name))
      .map((name) => name.slice(0, -".ts".length))
      .toSorted()
    assert.deepStrictEqual(Object.keys(migrations), files)
  })

  it("no two migrations have the same number", () => {
    const numbers = Object.keys(migrations).map((name) => name.slice(0, 4))
    assert.strictEqual(new Set(numbers).size, numbers.length)
  })
})

layer(TestDatabase.layerSql, { excludeTestServices: true })("the migrated schema", (it) => {
  it.effect("no migration is changed once it is released", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const sent = yield* Effect.forEach(Object.entries(migrations), ([name, migration]) => {
        const digest = createHash("sha256")
        const recorder = new Proxy(sql, {
          get: (_, property) =>
            property === "unsafe"
              ? (statement: string) => Effect.sync(() => digest.update(statement).update("\0"))
              : assert.fail(`${name} uses ${String(property)}`)
        })
        return Effect.as(Effect.provideService(migration, SqlClient.SqlClient, recorder), [
          name,
          digest
        ] as const)
      })
      assert.deepStrictEqual(
        Object.fromEntries(sent.map(([name, digest]) => [name, digest.digest("hex")])),
        digests
      )
    })
  )

  it.effect("every table and every column has a comment", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const missing = yield* sql<{ readonly name: string }>`
        SELECT concat_ws('.', c.relname, a.attname) AS name
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = 'public'::regnamespace
          AND c.relkind IN ('r', 'p')
          AND NOT c.relispartition
          AND (col_description(c.oid, a.attnum) IS NULL OR obj_description(c.oid, 'pg_class') IS NULL)
        ORDER BY 1
      `
      assert.deepStrictEqual(missing, [])
    })
  )

  it.effect("it has no trigger, function or rule, which a reader of a statement would not see", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const found = yield* sql<{ readonly name: string }>`
        SELECT tgname::text AS name FROM pg_trigger WHERE NOT tgisinternal
        UNION ALL
        SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION ALL
        SELECT rulename::text FROM pg_rules WHERE schemaname = 'public'
      `
      assert.deepStrictEqual(found, [])
    })
  )
})
