import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"

layer(service(), { excludeTestServices: true })("Compressed responses", (it) => {
  it.effect.each([
    ["gzip", "gzip"],
    ["gzip, br", "br"],
    ["identity", null],
    ["gzip;q=0", null]
  ] as const)(
    "a page of a list is sent to a client that accepts `%s` with the coding %s",
    ([accepted, coding]) =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const key = yield* countersign.key()
        const body = JSON.stringify({ metadata: { note: "a customer asks for a refund. ".repeat(60) } })
        for (const _ of [1, 2, 3, 4, 5, 6]) {
          assert.strictEqual((yield* send("/v1/agent-sessions", { method: "POST", key, body })).status, 201)
        }
        const list = (headers: Record<string, string>) => send("/v1/agent-sessions", { key, headers })
        const answer = yield* list({ "accept-encoding": accepted })
        const plain = yield* list({ "accept-encoding": "identity" })
        assert.strictEqual(answer.headers.get("content-encoding"), coding)
        assert.strictEqual(answer.headers.get("vary"), "Accept-Encoding")
        assert.deepStrictEqual(answer.body, plain.body)
        const sent = (headers: Headers) => Number(headers.get("content-length"))
        assert.isAtLeast(sent(plain.headers), 8 * 1024)
        if (coding !== null) assert.isBelow(sent(answer.headers), sent(plain.headers) / 4)
      })
  )

  it.effect("small responses and those of writes are sent as they are", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key()
      const headers = { "accept-encoding": "gzip, br" }
      const small = yield* send("/v1/tasks", { key, headers })
      assert.isNull(small.headers.get("content-encoding"))
      const body = JSON.stringify({ metadata: { note: "x".repeat(9_000) } })
      const written = yield* send("/v1/agent-sessions", { method: "POST", key, headers, body })
      assert.isNull(written.headers.get("content-encoding"))
    })
  )
})
