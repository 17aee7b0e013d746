import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { deleteExpired } from "../../../src/server/deletion/RowRetention.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { service } from "../../support/service.ts"

layer(service(), { excludeTestServices: true })("Retention of API keys", (it) => {
  it.effect("keys are removed some time after they ended, unless they created keys that remain", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const admin = yield* (yield* Countersign).client({}, "retention of keys")
      const make = (client: typeof admin, name: string, preset: "admin" | "runtime" = "runtime") =>
        Effect.map(client.apiKeys.create({ payload: { name, preset } }), ({ key, secret }) => ({
          id: key.id,
          secret: Redacted.make(secret)
        }))
      const names = Effect.map(admin.apiKeys.list({ query: {} }), ({ keys }) =>
        keys
          .map(({ name }) => name)
          .filter((name) => name.startsWith("key"))
          .toSorted()
      )
      const old = yield* make(admin, "key old")
      const recent = yield* make(admin, "key recent")
      const maker = yield* make(admin, "key maker", "admin")
      const makers = yield* (yield* Countersign).clientWith(maker.secret)
      const made = yield* make(makers, "key made")
      yield* make(admin, "key usable")
      for (const { id } of [old, recent]) yield* admin.apiKeys.revoke({ params: { id }, query: {} })
      yield* admin.apiKeys.revoke({ params: { id: maker.id }, query: { made_keys: "keep" } })
      yield* sql`
        UPDATE api_keys
        SET revoked_at = now() - interval '91 days'
        WHERE key_id IN (${old.id}, ${maker.id})
      `
      yield* sql`
        INSERT INTO api_key_uses (org_id, key_id, last_used_at)
        SELECT org_id, key_id, now() FROM api_keys WHERE key_id IN (${old.id}, ${recent.id})
        ON CONFLICT DO NOTHING
      `
      yield* deleteExpired("key_retention", "90 days")
      const uses = yield* sql<{ readonly key_id: string }>`
        SELECT key_id FROM api_key_uses WHERE key_id IN (${old.id}, ${recent.id})
      `
      assert.deepStrictEqual(
        uses.map(({ key_id }) => key_id),
        [recent.id]
      )
      assert.deepStrictEqual(yield* names, ["key made", "key maker", "key recent", "key usable"])

      // The last key that it created is gone: now it goes too.
      yield* admin.apiKeys.revoke({ params: { id: made.id }, query: {} })
      yield* sql`UPDATE api_keys SET revoked_at = now() - interval '91 days' WHERE key_id = ${made.id}`
      yield* deleteExpired("key_retention", "90 days")
      assert.deepStrictEqual(yield* names, ["key recent", "key usable"])
    })
  )

  it.effect("keys that no other key created are retained, whenever they ended", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({}, "retention of operators")
      yield* countersign.key({ name: "of the operator" }, "retention of operators")
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        UPDATE api_keys
        SET revoked_at = now() - interval '91 days'
        WHERE name = 'of the operator'
      `
      yield* deleteExpired("key_retention", "90 days")
      const { keys } = yield* admin.apiKeys.list({ query: {} })
      assert.include(
        keys.map(({ name }) => name),
        "of the operator"
      )
    })
  )
})
