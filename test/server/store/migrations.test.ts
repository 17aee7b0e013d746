import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer, Result, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { readdirSync } from "node:fs"
import { type VerifiedChain, verifyEntry } from "../../../src/domain/identity/AuditChain.ts"
import { OrgId } from "../../../src/domain/Ids.ts"
import { AuditChain } from "../../../src/server/identity/AuditChain.ts"
import auditChain from "../../../src/server/store/migrations/0038_audit_chain.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { migrations } from "../../../src/server/store/migrations/index.ts"
import { TestDatabase } from "../../support/postgres.ts"

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

  it.effect("the migration of the audit chain chains existing entries in the order of their ids", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const asBefore = [
        "DROP TABLE audit_chain, audit_heads",
        "DROP TRIGGER audit_log_chain ON audit_log",
        "DROP FUNCTION audit_log_chain, audit_chain_append(audit_log), audit_chain_digest(bytea, bigint, audit_log)",
        `INSERT INTO audit_log (org_id, entry_id, action, target_id, actor_id, actor_name, occurred_at, request_id, detail)
          SELECT 'org_' || lpad(to_hex(n % 2), 32, '0'), 'aud_' || lpad(to_hex(n), 32, '0'), 'key.created', 'key_1', 'key_2', 'Ä "', now(),
            'req_1', '{"name":"\u2028 é","n":1.5}'
          FROM generate_series(9, 0, -1) n`
      ]
      yield* Effect.forEach(asBefore, (statement) => sql.unsafe(statement))
      yield* auditChain
      // Each head is written once: with a version for each entry, which no one can remove before the commit, a million
      // entries would take days.
      const heads =
        yield* sql`SELECT ctid::text AS place, position::int AS position FROM audit_heads ORDER BY ctid`
      assert.deepStrictEqual(heads, [
        { place: "(0,1)", position: 5 },
        { place: "(0,2)", position: 5 }
      ])
      // The chains continue.
      yield* sql`
        INSERT INTO audit_log (org_id, entry_id, action, target_id, occurred_at, detail)
        SELECT org_id, 'aud_' || repeat('f', 32), 'key.created', 'key_1', now(), '{}'
        FROM audit_heads
      `
      const chain = yield* Effect.provide(AuditChain, AuditChain.layer.pipe(Layer.provide(StoreClock.layer)))
      for (const org of ["0", "1"]) {
        const entries = yield* Stream.runCollect(chain.export(OrgId.make(`org_${org.padStart(32, "0")}`)))
        assert.deepStrictEqual(
          entries.map(({ position }) => position),
          [1, 2, 3, 4, 5, 6]
        )
        assert.deepStrictEqual(
          entries,
          entries.toSorted((a, b) => (a.id < b.id ? -1 : 1))
        )
        let verified: VerifiedChain | undefined
        for (const entry of entries) verified = Result.getOrThrow(verifyEntry(verified, entry))
      }
    })
  )
})
