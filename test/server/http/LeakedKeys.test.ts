import { assert, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { readFile } from "node:fs/promises"
import * as Net from "node:net"
import { base62Checksum, generateApiKey, parseApiKey } from "../../../src/domain/identity/ApiKeyFormat.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { eventually, waitForBlockedStatements } from "../../support/eventually.ts"
import { send, service } from "../../support/service.ts"

const report = (body: unknown, headers: Record<string, string> = {}) =>
  send("/leaked-keys", { method: "POST", body: JSON.stringify(body), headers })

const asReported = (token: string) => ({
  token,
  type: "countersign_api_key",
  url: "https://example.com/commit",
  source: "content"
})

const behindProxy = { environment: { COUNTERSIGN_TRUSTED_PROXIES: "127.0.0.0/8" } }

layer(service(behindProxy), { excludeTestServices: true })("LeakedKeys", (it) => {
  it.effect("a reported key and the keys that it created are revoked at once, even the last admin key", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const leaked = Redacted.value(yield* countersign.key({ preset: "admin", name: "leaked" }, "leaks"))
      const { apiKeys } = yield* countersign.clientWith(Redacted.make(leaked))
      const made = yield* apiKeys.create({ payload: { name: "made", preset: "admin" } })
      for (const key of [leaked, made.secret])
        assert.strictEqual((yield* send("/v1/tasks", { key })).status, 200)
      const { body, status } = yield* report([asReported(leaked), asReported("csk_nonsense")])
      assert.strictEqual(status, 204)
      assert.deepStrictEqual(body, { text: "" })
      for (const key of [leaked, made.secret])
        assert.strictEqual((yield* send("/v1/tasks", { key })).status, 401)
      const operator = yield* countersign.client({ preset: "admin", name: "operator's" }, "leaks")
      const { keys } = yield* operator.apiKeys.list({})
      assert.deepStrictEqual(
        keys.map(({ name, revocation_reason, revoked_at }) => [name, revocation_reason, revoked_at !== null]),
        [
          ["operator's", null, false],
          ["made", "leaked", true],
          ["leaked", "leaked", true]
        ]
      )
      const { entries } = yield* operator.auditLog.list({ query: { action: "key.revoked" } })
      assert.deepStrictEqual(
        entries.map(({ actor, detail }) => [actor, detail]),
        [
          [null, { reason: "leaked", revoked_with: keys[2]?.id ?? "" }],
          [null, { reason: "leaked" }]
        ]
      )
    })
  )

  it.effect(
    "a key that is deleted while its report is processed does not keep the others from revocation",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const sql = yield* SqlClient.SqlClient
        const key = (organization: string) => Effect.map(countersign.key({}, organization), Redacted.value)
        const [deleted, other] = [yield* key("deleted"), yield* key("kept")]
        const locked = yield* Deferred.make<void>()
        const reported = yield* Deferred.make<void>()
        const deleting = yield* Effect.forkChild(
          transaction(
            Effect.gen(function* () {
              yield* sql`SELECT 1 FROM organizations WHERE name = 'deleted' FOR UPDATE`
              yield* Deferred.succeed(locked, undefined)
              yield* Deferred.await(reported)
              yield* sql`
              DELETE FROM api_keys
              WHERE org_id = (SELECT org_id FROM organizations WHERE name = 'deleted')
            `
            })
          )
        )
        yield* Deferred.await(locked)
        const reporting = yield* Effect.forkChild(report([asReported(deleted), asReported(other)]))
        yield* waitForBlockedStatements(1)
        yield* Deferred.succeed(reported, undefined)
        yield* Fiber.join(deleting)
        assert.strictEqual((yield* Fiber.join(reporting)).status, 204)
        assert.strictEqual((yield* send("/v1/tasks", { key: other })).status, 401)
      })
  )

  it.effect("only the whole text of a usable key revokes it, and the response is always the same", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({ preset: "admin" }, "intact")
      const { key, secret } = yield* admin.apiKeys.create({ payload: { name: "kept", preset: "admin" } })
      const { apiKeys } = yield* countersign.clientWith(Redacted.make(secret))
      const made = yield* apiKeys.create({ payload: { name: "made", preset: "runtime" } })
      // The public part of the key with another secret, and a right checksum.
      const checked = `${key.hint}${"0".repeat(43)}`
      const forged = checked + base62Checksum(checked)
      assert.isTrue(Result.isSuccess(parseApiKey(forged)))
      const unknown = Redacted.value((yield* generateApiKey).key)
      for (const [index, token] of [
        key.hint,
        secret.slice(0, -1),
        forged,
        unknown,
        "",
        "x".repeat(10_000)
      ].entries()) {
        const { body, status } = yield* report([asReported(token)], {
          "x-forwarded-for": `198.51.100.${index}`
        })
        assert.deepStrictEqual([status, body], [204, { text: "" }])
      }
      assert.strictEqual((yield* send("/v1/tasks", { key: secret })).status, 200)
      // A key that was revoked before does not take those with it that it was to leave.
      yield* admin.apiKeys.revoke({ params: { id: key.id }, query: { made_keys: "keep" } })
      assert.strictEqual((yield* report([asReported(secret)])).status, 204)
      assert.strictEqual((yield* send("/v1/tasks", { key: made.secret })).status, 200)
    })
  )

  it.effect("addresses that send large reports slowly do not keep out the reports of others", () =>
    Effect.gen(function* () {
      const { url } = yield* Countersign
      let begun = 0
      yield* Effect.acquireRelease(
        Effect.sync(() =>
          Array.from({ length: 35 }, (_, index) => {
            const socket = Net.connect({ port: Number(new URL(url).port), host: "127.0.0.1" })
            socket.on("error", () => undefined)
            // The service asks for the body when it begins to read it.
            socket.once("data", (data) => {
              if (data.toString().startsWith("HTTP/1.1 100 ")) begun++
            })
            socket.write(
              [
                "POST /leaked-keys HTTP/1.1",
                "Host: countersign",
                `X-Forwarded-For: 192.0.2.${index % 7}`,
                "Content-Type: application/json",
                "Content-Length: 1048576",
                "Expect: 100-continue",
                "\r\n"
              ].join("\r\n")
            )
            return socket
          })
        ),
        (sockets) => Effect.sync(() => sockets.forEach((socket) => socket.destroy()))
      )
      yield* eventually(
        Effect.sync(() => begun),
        (count) => count >= 28
      )
      const large = [asReported("x".repeat(100_000))]
      assert.strictEqual((yield* report(large, { "x-forwarded-for": "192.0.2.200" })).status, 204)
      assert.strictEqual(begun, 28)
    }).pipe(Effect.scoped)
  )

  it.effect("reports are bounded in number, size and rate for each address", () =>
    Effect.gen(function* () {
      const from = { "x-forwarded-for": "203.0.113.9" }
      const invalid = [[], {}, "csk_", [{ token: 1 }], Array.from({ length: 1_001 }, () => asReported("x"))]
      for (const [index, body] of invalid.entries()) {
        const sender = { "x-forwarded-for": `203.0.113.${20 + index}` }
        assert.strictEqual((yield* report(body, sender)).status, 400)
      }
      const large = Array.from({ length: 1_000 }, () => ({ token: "x".repeat(1_100) }))
      assert.strictEqual((yield* report(large, { "x-forwarded-for": "203.0.113.30" })).status, 413)
      const answers = yield* Effect.all(
        Array.from({ length: 40 }, () => report([asReported("x")], from)),
        { concurrency: 40 }
      )
      const refused = answers.filter(({ status }) => status === 429)
      assert.isAbove(refused.length, 0)
      assert.strictEqual(refused[0]?.body["code"], "RATE_LIMITED")
      // Reports that are invalid count too: the limit precedes the reading of the body.
      const unread = yield* Effect.all(
        Array.from({ length: 20 }, () => report([], from)),
        { concurrency: 20 }
      )
      assert.isAbove(unread.filter(({ status }) => status === 429).length, 0)
      // Another address is not affected.
      assert.strictEqual(
        (yield* report([asReported("x")], { "x-forwarded-for": "203.0.113.10" })).status,
        204
      )
    })
  )
})

it.effect("the documented pattern and checksum match keys", () =>
  Effect.gen(function* () {
    const page = yield* Effect.promise(() => readFile("docs/leaked-keys.md", "utf8"))
    const pattern = /```text\n(csk_\[.*)\n```/.exec(page)?.[1]
    const example = /```text\n(csk_0.*)\n```/.exec(page)?.[1]
    if (pattern === undefined || example === undefined)
      return assert.fail("the page has a pattern and an example")
    for (let count = 0; count < 100; count++) {
      const text = Redacted.value((yield* generateApiKey).key)
      assert.deepStrictEqual(new RegExp(pattern).exec(`"${text}"`)?.[0], text)
    }
    assert.isTrue(Result.isSuccess(parseApiKey(example)))
  })
)
