import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { ApiKeys } from "../../../../src/server/identity/ApiKeys.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { send, service } from "../../../support/service.ts"

/** The rows that were written, and the stored time of the only one. */
const writeUses = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* (yield* ApiKeys).writeUses
  return yield* sql<{ readonly last_used_at: Date; readonly version: string }>`
    SELECT last_used_at, xmin::text AS version FROM api_key_uses
  `
})

layer(service())("KeyUses", (it) => {
  it.effect("a key has the time of its last accepted request, written at most once a minute", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(DateTime.makeUnsafe("2026-11-22T10:00:00Z").epochMilliseconds)
      const countersign = yield* Countersign
      const key = yield* countersign.key({ preset: "admin" })
      const use = send("/v1/tasks", { key })
      const { apiKeys } = yield* countersign.clientWith(key)
      const [unused] = (yield* apiKeys.list({})).keys
      assert.isNull(unused?.last_used_at)
      const [first] = yield* writeUses

      yield* TestClock.adjust("30 seconds")
      yield* use
      assert.deepStrictEqual(yield* writeUses, first === undefined ? [] : [first])

      yield* TestClock.adjust("30 seconds")
      yield* use
      yield* use
      const [second] = yield* writeUses
      assert.strictEqual(second?.last_used_at.toISOString(), "2026-11-22T10:01:00.000Z")
      const [listed] = (yield* apiKeys.list({})).keys
      assert.strictEqual(
        listed?.last_used_at && DateTime.formatIso(listed.last_used_at),
        "2026-11-22T10:01:00.000Z"
      )
    })
  )

  it.effect("a refused request is no use of a key, a request of its console session is one", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const keys = yield* ApiKeys
      const sql = yield* SqlClient.SqlClient
      yield* keys.writeUses
      yield* sql`DELETE FROM api_key_uses`
      const abroad = yield* key({ allowed_networks: ["203.0.113.0/24"] }, "uses")
      yield* send("/v1/tasks", { key: abroad })
      yield* send("/v1/tasks", { key: `${Redacted.value(abroad).slice(0, -1)}-` })
      assert.lengthOf(yield* writeUses, 0)
      const answer = yield* send("/console/session", {
        method: "POST",
        headers: { origin: url.replace("http:", "https:"), "sec-fetch-site": "same-origin" },
        body: JSON.stringify({ key: Redacted.value(yield* key({ name: "Ada" }, "uses")) })
      })
      const [signedIn] = yield* writeUses
      yield* TestClock.adjust("2 minutes")
      const cookie = answer.headers.getSetCookie()[0]?.split(";")[0] ?? ""
      yield* send("/console/api/v1/tasks", { headers: { cookie } })
      const [used] = yield* writeUses
      assert.strictEqual(Number(used?.last_used_at) - Number(signedIn?.last_used_at), 120_000)
    })
  )

  it.effect("a key that was deleted after its use, with its organization, gets no row", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* (yield* ApiKeys).writeUses
      yield* sql`DELETE FROM api_key_uses`
      const key = yield* (yield* Countersign).key({}, "leaving")
      yield* send("/v1/tasks", { key })
      yield* sql`DELETE FROM api_keys WHERE org_id = (SELECT org_id FROM organizations WHERE name = 'leaving')`
      assert.lengthOf(yield* writeUses, 0)
    })
  )
})
