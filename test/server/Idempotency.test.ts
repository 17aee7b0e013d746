import { assert, layer } from "@effect/vitest"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Countersign } from "../../src/testing/index.ts"
import { send, service } from "../support/service.ts"

layer(service(), { excludeTestServices: true })("an idempotency key", (it) => {
  const create = (key: Redacted.Redacted, name: string, idempotencyKey: string) =>
    send("/v1/api-keys", {
      method: "POST",
      key,
      body: JSON.stringify({ name, preset: "runtime" }),
      headers: { "idempotency-key": idempotencyKey }
    })

  it.effect("gives the same answer to the same request, also when both come at once", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "same answer")
      const answers = yield* Effect.all(
        Array.from({ length: 8 }, () => create(key, "one", "first")),
        { concurrency: "unbounded" }
      )
      for (const answer of answers) {
        assert.strictEqual(answer.status, 201)
        assert.deepStrictEqual(answer.body, answers[0]?.body)
      }
      const admin = yield* (yield* Countersign).clientWith(key)
      const { keys } = yield* admin.api_keys.list({})
      assert.lengthOf(
        keys.filter(({ name }) => name === "one"),
        1
      )
    })
  )

  it.effect("is refused for another body, and free for another organization or operation", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "another body")
      assert.strictEqual((yield* create(key, "one", "k")).status, 201)
      const reused = yield* create(key, "two", "k")
      assert.strictEqual(reused.status, 409)
      assert.strictEqual(reused.body["code"], "IDEMPOTENCY_KEY_REUSED")
      assert.strictEqual((yield* create(yield* countersign.key({}, "another org"), "two", "k")).status, 201)
      const session = yield* send("/v1/agent-sessions", {
        method: "POST",
        key,
        body: "{}",
        headers: { "idempotency-key": "k" }
      })
      assert.strictEqual(session.status, 201)
    })
  )

  it.effect("of one caller gives its answer to no other, who may hold less", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.key({}, "callers")
      const narrow = yield* countersign.key({ name: "narrow", scopes: ["keys.write"] }, "callers")
      assert.strictEqual((yield* create(admin, "one", "deploy-1")).status, 201)
      const other = yield* create(narrow, "one", "deploy-1")
      assert.strictEqual(other.body["code"], "IDEMPOTENCY_KEY_REUSED")
      assert.notProperty(other.body, "secret")
    })
  )

  it.effect("is not used up by a request that was refused", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "refused")
      const body = JSON.stringify({ name: "x" })
      const headers = { "idempotency-key": "again" }
      assert.strictEqual((yield* send("/v1/api-keys", { method: "POST", key, body, headers })).status, 400)
      assert.strictEqual((yield* create(key, "x", "again")).status, 201)
    })
  )

  it.effect("keeps answers sealed", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "sealed")
      const { body } = yield* create(key, "one", "sealed")
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly answer: Uint8Array }>`SELECT answer FROM idempotency_keys`
      const secret = String(body["secret"])
      assert.isAbove(rows.length, 0)
      for (const { answer } of rows) assert.notInclude(Buffer.from(answer).toString("latin1"), secret)
    })
  )

  it.effect.each(["", "a b", "ü", "x".repeat(256)])("that reads %j is refused", (value) =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key()
      const answer = yield* send("/v1/agent-sessions", {
        method: "POST",
        key,
        body: "{}",
        headers: { "idempotency-key": value === "ü" ? "\u00fc" : value }
      })
      assert.strictEqual(answer.status, 400)
    })
  )
})
