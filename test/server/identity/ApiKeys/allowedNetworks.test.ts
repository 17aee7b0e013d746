import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Countersign } from "../../../../src/testing/index.ts"
import { pointersOf, send, service } from "../../../support/service.ts"

const EXAMPLE = "203.0.113.0/24"

layer(service(), { excludeTestServices: true })("Allowed networks of a key", (it) => {
  it.effect("a request from elsewhere gets 403, whatever X-Forwarded-For claims", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const abroad = yield* countersign.key({ preset: "admin", allowed_networks: [EXAMPLE] }, "abroad")
      const here = yield* countersign.key(
        { preset: "admin", name: "here", allowed_networks: ["::1/128", "127.0.0.0/8"] },
        "abroad"
      )
      assert.strictEqual((yield* send("/v1/api-keys", { key: here })).status, 200)
      for (const headers of [{}, { "x-forwarded-for": "203.0.113.7" }]) {
        const refused = yield* send("/v1/api-keys", { key: abroad, headers })
        assert.strictEqual(refused.status, 403)
        assert.strictEqual(refused.body["code"], "ADDRESS_NOT_ALLOWED")
        assert.include(String(refused.body["detail"]), "127.0.0.1")
      }
    })
  )

  it.effect("a key cannot create a key that may be used from more networks than itself", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const { apiKeys } = yield* countersign.client(
        { preset: "admin", allowed_networks: ["127.0.0.0/8", "2001:db8::/32"] },
        "narrower"
      )
      const create = (name: string, allowed_networks?: readonly [string, ...Array<string>] | null) =>
        Effect.map(
          apiKeys.create({
            payload: {
              name,
              preset: "runtime",
              ...(allowed_networks === undefined ? {} : { allowed_networks })
            }
          }),
          ({ key }) => key.allowed_networks
        )
      assert.deepStrictEqual(yield* create("inherits"), ["127.0.0.0/8", "2001:db8::/32"])
      assert.deepStrictEqual(yield* create("inherits too", null), ["127.0.0.0/8", "2001:db8::/32"])
      assert.deepStrictEqual(yield* create("within", ["127.0.0.1/32", "2001:db8:1::/48"]), [
        "127.0.0.1/32",
        "2001:db8:1::/48"
      ])
      for (const outside of ["0.0.0.0/0", EXAMPLE, "2001:db8::/31"]) {
        const refused = yield* Effect.flip(create("wider", ["127.0.0.1/32", outside]))
        assert.deepStrictEqual(pointersOf(refused), ["#/allowed_networks/1"])
      }
    })
  )

  it.effect("networks are in CIDR notation, at least one and at most fifty", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key()
      const post = (allowed_networks: unknown) =>
        send("/v1/api-keys", {
          method: "POST",
          key,
          body: JSON.stringify({
            name: `x ${JSON.stringify(allowed_networks).slice(0, 100)}`,
            preset: "runtime",
            allowed_networks
          })
        })
      for (const [networks, pointer] of [
        [[], "#/allowed_networks"],
        [Array.from({ length: 51 }, (_, index) => `10.0.0.${index}/32`), "#/allowed_networks"],
        [["203.0.113.77/24"], "#/allowed_networks/0"],
        [["203.0.113.7"], "#/allowed_networks/0"],
        [[EXAMPLE, "203.0.113.0/33"], "#/allowed_networks/1"],
        [["::ffff:203.0.113.0/120"], "#/allowed_networks/0"],
        [["example.com/24"], "#/allowed_networks/0"]
      ] as const) {
        const refused = yield* post(networks)
        assert.strictEqual(refused.status, 400)
        assert.strictEqual(refused.errors[0]?.pointer, pointer)
      }
      const { body } = yield* post(["203.0.113.0/24", "2001:DB8:0:0::/32", "2001:db8::/32"])
      assert.deepInclude(body["key"], { allowed_networks: [EXAMPLE, "2001:db8::/32"] })
    })
  )

  it.effect("a key signs in to the console from its networks only", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const signIn = (secret: Redacted.Redacted) =>
        send("/console/session", {
          method: "POST",
          headers: { origin: url, "sec-fetch-site": "same-origin" },
          body: JSON.stringify({ key: Redacted.value(secret) })
        })
      const refused = yield* signIn(yield* key({ name: "abroad", allowed_networks: [EXAMPLE] }))
      assert.strictEqual(refused.body["code"], "ADDRESS_NOT_ALLOWED")
      const accepted = yield* signIn(yield* key({ name: "local", allowed_networks: ["127.0.0.1/32"] }))
      assert.strictEqual(accepted.status, 200)
    })
  )
})

const behindProxy = { environment: { COUNTERSIGN_TRUSTED_PROXIES: "127.0.0.0/8,10.0.0.0/8" } }

layer(service(behindProxy), { excludeTestServices: true })("Allowed networks behind a proxy", (it) => {
  it.effect("the client's address is the last one in X-Forwarded-For that is not a trusted proxy", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({ allowed_networks: [EXAMPLE, "2001:db8::/32"] })
      for (const [forwarded, status] of [
        ["203.0.113.7", 200],
        ["2001:db8::7", 200],
        ["::ffff:203.0.113.7", 200],
        ["203.0.113.7, 10.1.2.3", 200],
        // The client wrote the first address itself.
        ["203.0.113.7, 198.51.100.1", 403],
        ["203.0.113.7, 198.51.100.1, 10.1.2.3", 403],
        ["203.0.113.7, nonsense", 403],
        ["", 403]
      ] as const) {
        const answer = yield* send("/v1/api-keys", { key, headers: { "x-forwarded-for": forwarded } })
        assert.strictEqual(answer.status, status, forwarded)
      }
      assert.strictEqual((yield* send("/v1/api-keys", { key })).status, 403)
    })
  )

  it.effect("a console session is refused where its key may not be used", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const from = { "x-forwarded-for": "203.0.113.7" }
      const answer = yield* send("/console/session", {
        method: "POST",
        headers: { origin: url.replace("http:", "https:"), "sec-fetch-site": "same-origin", ...from },
        body: JSON.stringify({
          key: Redacted.value(yield* key({ name: "Ada", allowed_networks: [EXAMPLE] }))
        })
      })
      const cookie = answer.headers.getSetCookie()[0]?.split(";")[0] ?? ""
      const list = (headers: Record<string, string>) =>
        Effect.map(
          send("/console/api/v1/api-keys", { headers: { cookie, ...headers } }),
          ({ status }) => status
        )
      assert.strictEqual(yield* list(from), 200)
      assert.strictEqual(yield* list({ "x-forwarded-for": "198.51.100.1" }), 403)
    })
  )
})

const otherProxy = { environment: { COUNTERSIGN_TRUSTED_PROXIES: "10.0.0.0/8" } }

layer(service(otherProxy), { excludeTestServices: true })("Allowed networks beside a proxy", (it) => {
  it.effect("a client that is not a trusted proxy cannot choose its address by X-Forwarded-For", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({ allowed_networks: [EXAMPLE] })
      for (const forwarded of ["203.0.113.7", "203.0.113.7, 10.1.2.3"]) {
        const refused = yield* send("/v1/api-keys", { key, headers: { "x-forwarded-for": forwarded } })
        assert.deepStrictEqual([refused.status, refused.body["code"]], [403, "ADDRESS_NOT_ALLOWED"])
        assert.include(String(refused.body["detail"]), "127.0.0.1")
      }
    })
  )
})
