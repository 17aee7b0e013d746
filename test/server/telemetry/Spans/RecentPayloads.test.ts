import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { RecentPayloads } from "../../../../src/server/telemetry/Spans/RecentPayloads.ts"

const MEBIBYTE = 1024 * 1024

describe("RecentPayloads", () => {
  it.effect("a request is returned once, and the oldest are evicted beyond four mebibytes", () =>
    Effect.gen(function* () {
      const written = yield* RecentPayloads
      const payload = () => ({ request: new Uint8Array(MEBIBYTE), version: "1" })
      const requests = Array.from({ length: 5 }, payload)
      for (const [number, request] of requests.entries()) written.keep(`batch ${number}`, request)
      assert.isUndefined(written.take("batch 0"))
      assert.strictEqual(written.take("batch 1"), requests[1])
      assert.isUndefined(written.take("batch 1"))
      // Taking an entry frees its bytes.
      written.keep("batch 5", payload())
      assert.isDefined(written.take("batch 2"))
      assert.isDefined(written.take("batch 5"))
    }).pipe(Effect.provide(RecentPayloads.layer))
  )
})
