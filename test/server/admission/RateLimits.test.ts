import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { HttpServerResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { generateApiKey } from "../../../src/domain/identity/ApiKeyFormat.ts"
import { KeyId, OrgId, SessionId } from "../../../src/domain/Ids.ts"
import { RateLimits, type Requester } from "../../../src/server/admission/RateLimits.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"
import { LimitUse } from "../../../src/server/observability/LimitUse.ts"

const statuses = (answers: ReadonlyArray<{ readonly status: number }>) => answers.map(({ status }) => status)

const limited = { environment: { COUNTERSIGN_RATE_LIMIT_PER_SECOND: "3" } }

/** Concurrent requests, so that the result hardly depends on the speed of the machine. */
const AT_ONCE = 40

// Each suite has a service of its own: all share one address, whose key lookups are limited.
layer(service(limited), { excludeTestServices: true })("RateLimits per key", (it) => {
  it.effect("a key beyond its limit gets 429 with Retry-After, while other keys are served", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key()
      const list = send("/v1/agent-sessions", { key })
      const answers = yield* Effect.all(
        Array.from({ length: AT_ONCE }, () => list),
        { concurrency: AT_ONCE }
      )

      const served = answers.filter(({ status }) => status === 200)
      const refused = answers.filter(({ status }) => status === 429)
      assert.strictEqual(served.length + refused.length, AT_ONCE)
      assert.isAtLeast(served.length, 3)
      assert.isAtLeast(refused.length, 1)
      assert.strictEqual(served[0]?.headers.get("ratelimit-policy"), '"key";q=3;w=1')
      assert.match(served[0]?.headers.get("ratelimit") ?? "", /^"key";r=[0-2];t=1$/)
      for (const { body, headers } of refused) {
        assert.strictEqual(body["code"], "RATE_LIMITED")
        assert.strictEqual(body["request_id"], headers.get("x-request-id"))
        assert.strictEqual(body["retry_after_seconds"], 1)
        assert.strictEqual(headers.get("retry-after"), "1")
        assert.strictEqual(headers.get("ratelimit"), '"key";r=0;t=1')
        assert.strictEqual(headers.get("ratelimit-policy"), '"key";q=3;w=1')
      }
      const other = yield* send("/v1/agent-sessions", { key: yield* countersign.key() })
      assert.strictEqual(other.status, 200)
    })
  )
})

layer(service({ environment: { COUNTERSIGN_RATE_LIMIT_PER_SECOND: "100" } }), { excludeTestServices: true })(
  "RateLimits headers",
  (it) => {
    it.effect("every response to an authenticated request has them, problems too", () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const key = yield* countersign.key({ preset: "runtime" })
        const post = (path: string, body: string) => send(path, { key, method: "POST", body })
        const answers = [
          yield* send("/v1/agent-sessions", { key }),
          yield* send("/v1/api-keys", { key }),
          yield* send(`/v1/agent-sessions/${yield* SessionId.generate}`, { key }),
          yield* post("/v1/agent-sessions", "no JSON"),
          yield* post("/v1/agent-sessions", JSON.stringify({ metadata: { a: "x".repeat(2 ** 21) } })),
          yield* post("/v1/api-keys", "{}")
        ]
        assert.deepStrictEqual(statuses(answers), [200, 403, 404, 400, 413, 403])
        for (const { headers } of answers) {
          assert.strictEqual(headers.get("ratelimit-policy"), '"key";q=100;w=1')
          assert.match(headers.get("ratelimit") ?? "", /^"key";r=\d+;t=1$/)
        }
      })
    )
  }
)

layer(service({ environment: { COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND: "3" } }), {
  excludeTestServices: true
})("RateLimits per organization", (it) => {
  it.effect("all keys of an organization share its limit, and other organizations are served", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const keys = yield* Effect.replicateEffect(countersign.key(), 10)
      const answers = yield* Effect.all(
        Array.from({ length: AT_ONCE }, (_, index) =>
          send("/v1/agent-sessions", { key: keys[index % 10] ?? "" })
        ),
        { concurrency: AT_ONCE }
      )
      const refused = answers.filter(({ status }) => status === 429)
      assert.isAtLeast(refused.length, 1)
      assert.isAtLeast(answers.filter(({ status }) => status === 200).length, 3)
      for (const { body, headers } of refused) {
        assert.strictEqual(body["code"], "RATE_LIMITED")
        assert.match(
          String(body["detail"]),
          /organization's API keys together may send 3 requests per second/
        )
        assert.strictEqual(headers.get("retry-after"), "1")
        assert.strictEqual(headers.get("ratelimit"), '"organization";r=0;t=1')
        assert.strictEqual(headers.get("ratelimit-policy"), '"organization";q=3;w=1')
      }
      const other = yield* send("/v1/agent-sessions", { key: yield* countersign.key({}, "other") })
      assert.strictEqual(other.status, 200)
    })
  )
})

layer(service(limited), { excludeTestServices: true })("RateLimits of the console", (it) => {
  it.effect("a key beyond its limit cannot sign in to the console either", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key()
      assert.strictEqual((yield* send("/v1/agent-sessions", { key })).status, 200)
      const signIn = send("/console/session", {
        method: "POST",
        headers: { origin: countersign.url, "sec-fetch-site": "same-origin" },
        body: JSON.stringify({ key: Redacted.value(key) })
      })
      const answers = yield* Effect.all(
        Array.from({ length: AT_ONCE }, () => signIn),
        { concurrency: AT_ONCE }
      )
      assert.sameMembers([...new Set(statuses(answers))], [200, 429])
      for (const { headers, status } of answers) {
        assert.strictEqual(headers.has("set-cookie"), status === 200)
        assert.strictEqual(headers.get("retry-after"), status === 429 ? "1" : null)
      }
    })
  )
})

layer(service(limited), { excludeTestServices: true })("RateLimits of invalid keys", (it) => {
  it.effect("a flood of invalid keys is limited and does not delay a valid key", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const used = yield* countersign.key()
      assert.strictEqual((yield* send("/v1/agent-sessions", { key: used })).status, 200)
      const unknown = Effect.flatMap(generateApiKey, ({ key }) => send("/v1/agent-sessions", { key }))
      const answers = yield* Effect.all(
        Array.from({ length: AT_ONCE }, () => unknown),
        { concurrency: AT_ONCE }
      )
      assert.includeMembers([401, 429], statuses(answers))
      assert.include(statuses(answers), 429)
      for (const { body, headers, status } of answers) {
        if (status === 429) {
          assert.strictEqual(body["code"], "RATE_LIMITED")
          assert.strictEqual(headers.get("retry-after"), "1")
        }
      }
      assert.strictEqual((yield* send("/v1/agent-sessions", { key: used })).status, 200)
      const mistyped = Redacted.value(used).replace(/.$/, (last) => (last === "0" ? "1" : "0"))
      assert.strictEqual((yield* send("/v1/agent-sessions", { key: mistyped })).status, 401)
    })
  )
})

layer(service(), { excludeTestServices: true })("RateLimits with a limit of 0", (it) => {
  it.effect("no request is rejected, and no response has a rate limit header", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key()
      const list = send("/v1/agent-sessions", { key })
      const answers = yield* Effect.all(
        Array.from({ length: AT_ONCE }, () => list),
        { concurrency: AT_ONCE }
      )
      assert.deepStrictEqual([...new Set(statuses(answers))], [200])
      assert.isNull(answers[0]?.headers.get("ratelimit"))
    })
  )
})

describe("RateLimits buckets", () => {
  const withRates = (rates: Parameters<typeof RateLimits.layer>[0]) =>
    RateLimits.layer(rates).pipe(Layer.provide(LimitUse.layerNone))
  const allowed = (limits: RateLimits["Service"], requester: Requester, count: number) =>
    Effect.map(
      Effect.all(Array.from({ length: count }, () => limits.admitRequest(requester))),
      (quotas) => quotas.filter(({ refused }) => refused === undefined).length
    )
  const requester = (org_id: OrgId) =>
    Effect.map(KeyId.generate, (id): Requester => ({ org_id, actor: { id } }))

  it.effect("a bucket fills with time, whether it is still stored or not", () =>
    Effect.gen(function* () {
      const limits = yield* RateLimits
      const key = yield* requester(yield* OrgId.generate)
      assert.strictEqual(yield* allowed(limits, key, 30), 10)
      yield* TestClock.adjust("300 millis")
      assert.strictEqual(yield* allowed(limits, key, 30), 3)
      // Into the next generation, half full, and the one after, full.
      yield* TestClock.adjust("800 millis")
      assert.strictEqual(yield* allowed(limits, key, 30), 8)
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* allowed(limits, key, 30), 10)
    }).pipe(Effect.provide(withRates({ perKey: 10, perOrganization: 0, endUserFeedback: 0 })))
  )

  it.effect("a response has the remaining quota in its headers", () =>
    Effect.gen(function* () {
      const limits = yield* RateLimits
      const { addHeaders } = yield* limits.admitRequest(yield* requester(yield* OrgId.generate))
      const { headers } = addHeaders(HttpServerResponse.empty())
      assert.strictEqual(headers["ratelimit"], '"key";r=9;t=1, "organization";r=14;t=1')
      assert.strictEqual(headers["ratelimit-policy"], '"key";q=10;w=1, "organization";q=15;w=1')
    }).pipe(Effect.provide(withRates({ perKey: 10, perOrganization: 15, endUserFeedback: 0 })))
  )

  it.effect(
    "a key beyond its own limit uses nothing of its organization's, and other organizations have their own",
    () =>
      Effect.gen(function* () {
        const limits = yield* RateLimits
        const org_id = yield* OrgId.generate
        assert.strictEqual(yield* allowed(limits, yield* requester(org_id), 100), 10)
        assert.strictEqual(yield* allowed(limits, yield* requester(org_id), 100), 5)
        assert.strictEqual(yield* allowed(limits, yield* requester(org_id), 100), 0)
        assert.strictEqual(yield* allowed(limits, yield* requester(yield* OrgId.generate), 100), 10)
      }).pipe(Effect.provide(withRates({ perKey: 10, perOrganization: 15, endUserFeedback: 0 })))
  )

  it.effect("of addresses: lookups are limited also if keys are not", () =>
    Effect.gen(function* () {
      const limits = yield* RateLimits
      const results = yield* Effect.forEach(Array.from({ length: 501 }), () =>
        Effect.result(limits.admitKeyLookup("192.0.2.1"))
      )
      assert.lengthOf(
        results.filter(({ _tag }) => _tag === "Success"),
        500
      )
    }).pipe(Effect.provide(withRates({ perKey: 0, perOrganization: 0, endUserFeedback: 0 })))
  )

  const lookUps = (addresses: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const limits = yield* RateLimits
      const results = yield* Effect.forEach(addresses, (address) =>
        Effect.result(limits.admitKeyLookup(address))
      )
      return results.map(({ _tag }) => _tag)
    }).pipe(Effect.provide(withRates({ perKey: 1, perOrganization: 0, endUserFeedback: 0 })))

  it.effect.each([
    ["192.0.2.1", "192.0.2.2", "Success"],
    ["192.0.2.1", "192.0.2.1", "Failure"],
    ["::ffff:192.0.2.1", "::ffff:192.0.2.2", "Success"],
    ["2001:db8::1", "2001:db8::ffff:2", "Failure"],
    ["2001:db8::1", "2001:db8:0:1::1", "Success"],
    ["unknown", "unknown", "Failure"]
  ] as const)("of addresses: after %s, %s is a %s", ([first, second, expected]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* lookUps([first, second]), ["Success", expected])
    })
  )
})
