import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TelemetryDestinationId } from "../../../../src/domain/Ids.ts"
import { Egress, type EgressRequest } from "../../../../src/server/egress/Egress.ts"
import { EgressFailed, type EgressReason } from "../../../../src/server/egress/EgressFailed.ts"
import { sendCompressed, sendSpans } from "../../../../src/server/telemetry/Telemetry/sendSpans.ts"

/** An egress whose requests all fail with one reason. */
const failingWith = (reason: EgressReason, asked: Array<EgressRequest> = []) =>
  Egress.of({
    vet: () => Effect.die(new Error("Not vetted here")),
    send: (request) => {
      asked.push(request)
      return Effect.fail(new EgressFailed({ reason }))
    }
  })

const to = {
  url: "https://collector.example.com/v1/traces",
  headers: { authorization: "Bearer token" }
}

const send = (egress: Egress["Service"]) =>
  Effect.flatMap(TelemetryDestinationId.generate, (id) =>
    sendSpans(egress, { org_id: "org_1", destination_id: id }, to, {
      payload: new Uint8Array(),
      spans: 1,
      isGzipped: true
    })
  )

/** Typical reasons, and the outcome for the batch. */
const ends: ReadonlyArray<readonly [EgressReason, "Retry" | "Failed"]> = [
  ["TimedOut", "Retry"],
  ["ConnectTimedOut", "Retry"],
  ["ConnectionRefused", "Retry"],
  ["ConnectionClosed", "Retry"],
  ["NameNotFound", "Retry"],
  ["CertificateExpired", "Retry"],
  ["HeadersTooLarge", "Failed"],
  ["MalformedResponse", "Failed"],
  ["RefusedAddress", "Failed"],
  ["RefusedUrl", "Failed"],
  ["RefusedRequest", "Failed"]
]

describe("sendSpans", () => {
  it.effect("a request without a response is retried, a malformed response is not", () =>
    Effect.gen(function* () {
      for (const [reason, end] of ends) {
        assert.deepStrictEqual([reason, (yield* send(failingWith(reason)))._tag], [reason, end])
      }
    })
  )

  it.effect("a request may take ten seconds and is retried after a timeout", () =>
    Effect.gen(function* () {
      const asked: Array<EgressRequest> = []
      const outcome = yield* send(failingWith("TimedOut", asked))
      assert.deepStrictEqual(outcome, {
        _tag: "Retry",
        error: "timed out waiting for a response",
        status: null,
        retryAfter: null
      })
      assert.deepStrictEqual(
        asked.map(({ timeout, url }) => ({ timeout, url })),
        [{ timeout: 10_000, url: to.url }]
      )
    })
  )

  it.effect(
    "what a collector accepted without compression is not sent again if that cannot be remembered",
    () =>
      Effect.gen(function* () {
        const outcome = yield* sendCompressed(
          { compression: "auto", gzip_refused: false },
          (isGzipped) =>
            Effect.succeed(
              isGzipped
                ? { _tag: "Failed", status: 415, error: "HTTP 415" }
                : { _tag: "Delivered", status: 200 }
            ),
          Effect.die(new Error("The database is unavailable"))
        )
        assert.deepStrictEqual(outcome, { _tag: "Delivered", status: 200 })
      })
  )
})
