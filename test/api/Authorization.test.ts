import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Api } from "../../src/api/Api.ts"
import { Authentication, scopesOf } from "../../src/api/Authorization.ts"
import { generateApiKey } from "../../src/domain/identity/ApiKeyFormat.ts"
import { scopes } from "../../src/domain/identity/Scope.ts"
import { Countersign } from "../../src/testing/index.ts"
import { exchange } from "../support/rawSocket.ts"
import { send, service } from "../support/service.ts"

/** Every operation of the API, with the scopes that it requires. */
const operations = Object.values(Api.groups).flatMap((group) =>
  Object.values(group.endpoints).map((endpoint) => {
    const middlewares = Array.from<{ readonly key: string }, string>(endpoint.middlewares, ({ key }) => key)
    return {
      name: `${group.identifier}.${endpoint.identifier}`,
      method: endpoint.method,
      path: endpoint.path.replaceAll(/:\w+/g, `apr_${"0".repeat(32)}`).replace(/(?<=.)\/$/, ""),
      hasBody: endpoint.payload.size > 0,
      authenticated: middlewares.includes(Authentication.key),
      scopes: middlewares.map(scopesOf).filter((asked) => asked.length > 0)
    }
  })
)

layer(service(), { excludeTestServices: true })("Authorization", (it) => {
  it.effect("every operation requires a key and exactly one scope, or one of two", () =>
    Effect.sync(() => {
      assert.isAbove(operations.length, 10)
      for (const operation of operations) {
        assert.isTrue(operation.authenticated, operation.name)
        assert.lengthOf(operation.scopes, 1, operation.name)
      }
    })
  )

  it.effect("every operation rejects a missing, malformed, mistyped, unknown, revoked and expired key", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client()
      const revoked = yield* admin.apiKeys.create({ payload: { name: "revoked", preset: "admin" } })
      yield* admin.apiKeys.revoke({ params: { id: revoked.key.id } })
      const expired = yield* admin.apiKeys.create({ payload: { name: "expired", preset: "admin" } })
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE key_id = ${expired.key.id}`
      const good = Redacted.value(yield* countersign.key())
      const unknown = Redacted.value((yield* generateApiKey).key)
      const keys: Record<string, string | undefined> = {
        "no key": undefined,
        empty: "",
        malformed: "csk_nonsense",
        "a typo": good.slice(0, -1) + (good.endsWith("a") ? "b" : "a"),
        unknown,
        revoked: revoked.secret,
        expired: expired.secret
      }
      for (const { method, name, path } of operations) {
        for (const [kind, key] of Object.entries(keys)) {
          const answer = yield* send(path, {
            method,
            ...(key === undefined ? {} : { key }),
            ...(method === "GET" || method === "DELETE" ? {} : { body: "{}" })
          })
          assert.strictEqual(answer.status, 401, `${name} with ${kind}`)
          assert.strictEqual(answer.body["code"], "INVALID_API_KEY")
          assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer/)
        }
      }
    })
  )

  it.effect("every operation rejects a key with all other scopes and names the missing one", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      for (const { method, name, path, scopes: asked } of operations) {
        const [either = []] = asked
        const [first, ...rest] = scopes.filter((held) => !either.includes(held))
        const key = yield* countersign.key({ name: "all but one", scopes: [first ?? "keys.write", ...rest] })
        const answer = yield* send(path, {
          method,
          key,
          ...(method === "GET" || method === "DELETE" ? {} : { body: "{}" })
        })
        assert.strictEqual(answer.status, 403, name)
        assert.strictEqual(answer.body["code"], "INSUFFICIENT_SCOPE", name)
        assert.include(either, answer.body["required_scope"], name)
      }
    })
  )

  it.effect("every operation rejects a key without its scope before it reads the body", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const port = Number(new URL(url).port)
      const withBody = operations.filter(({ hasBody }) => hasBody)
      assert.isAbove(withBody.length, 10)
      for (const { method, name, path, scopes: asked } of withBody) {
        const [first = "keys.write", ...rest] = scopes.filter((held) => !asked[0]?.includes(held))
        const other = yield* key({ name: "all but one", scopes: [first, ...rest] })
        // Of the body, nothing is ever sent.
        const head = [
          `${method} ${path} HTTP/1.1`,
          "Host: countersign",
          "Connection: close",
          `Authorization: Bearer ${Redacted.value(other)}`,
          "Content-Type: application/json",
          "Content-Length: 1000",
          "\r\n"
        ].join("\r\n")
        const { body, status } = yield* exchange(port, head)
        assert.strictEqual(status, 403, name)
        assert.strictEqual(body["code"], "INSUFFICIENT_SCOPE", name)
      }
    })
  )
})
