import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TelemetryDestinationId } from "../../../src/domain/Ids.ts"
import { Egress, EgressFailed, type EgressRequest } from "../../../src/server/Egress.ts"
import { sendSpans } from "../../../src/server/Telemetry/send.ts"

describe("a request to a collector", () => {
  it.effect("may take ten seconds, and is worth another attempt where it took longer", () =>
    Effect.gen(function* () {
      const asked: Array<EgressRequest> = []
      const egress = Egress.of({
        vet: () => Effect.die(new Error("Not vetted here")),
        send: (request) => {
          asked.push(request)
          return Effect.fail(new EgressFailed({ reason: "TimedOut" }))
        }
      })
      const to = {
        url: "https://collector.example.com/v1/traces",
        headers: { authorization: "Bearer token" }
      }
      const outcome = yield* sendSpans(
        egress,
        yield* TelemetryDestinationId.generate,
        to,
        new Uint8Array(),
        1
      )
      assert.deepStrictEqual(outcome, {
        _tag: "Retry",
        error: "timed out before an answer came",
        status: null,
        retryAfter: null
      })
      assert.deepStrictEqual(
        asked.map(({ timeout, url }) => ({ timeout, url })),
        [{ timeout: 10_000, url: to.url }]
      )
    })
  )
})
