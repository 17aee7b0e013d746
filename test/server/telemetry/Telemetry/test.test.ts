import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { shownDestination, newTelemetryOrg, TOKEN } from "../../../support/otlp/telemetry.ts"
import { send, service } from "../../../support/service.ts"

layer(service(), { excludeTestServices: true })("Test of a telemetry destination", (it) => {
  const test = (
    key: Parameters<typeof send>[1] extends infer O ? (O extends { key?: infer K } ? K : never) : never,
    id: string
  ) => send(`/v1/telemetry-destinations/${id}/test`, { key: key ?? "", method: "POST" })

  it.effect("a test sends one span, at most once in ten seconds, and changes no counts", () =>
    Effect.gen(function* () {
      const { admin, id, key, params, peer } = yield* newTelemetryOrg("tested")
      const first = yield* test(key, id)
      assert.deepStrictEqual([first.status, first.body], [200, { delivered: true }])
      assert.deepStrictEqual(peer.faults, [])
      assert.deepStrictEqual(
        peer.spans().map(({ name }) => name),
        ["svc.test"]
      )
      const second = yield* test(key, id)
      assert.deepStrictEqual([second.status, second.body["code"]], [429, "RATE_LIMITED"])
      assert.match(second.headers.get("retry-after") ?? "", /^([1-9]|10)$/)
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE telemetry_destinations SET tested_at = tested_at - interval '7 seconds'`
      const third = yield* test(key, id)
      assert.match(third.headers.get("retry-after") ?? "", /^[1-3]$/)
      assert.lengthOf(peer.exports, 1)
      const destination = yield* shownDestination(admin)
      assert.isNull(destination.last_delivered_at)
      assert.deepStrictEqual([destination.pending_spans, destination.dropped_spans], [0, 0])
      assert.deepStrictEqual(yield* admin.telemetryDestinations.listDeliveries({ params }), {
        deliveries: []
      })
      yield* sql`UPDATE telemetry_destinations SET tested_at = tested_at - interval '10 seconds'`
      assert.strictEqual((yield* test(key, id)).status, 200)
    })
  )

  for (const [what, answer, phrase] of [
    [
      "rejects the span",
      { status: 200, body: { partialSuccess: { rejectedSpans: "1", errorMessage: TOKEN } } },
      "the collector rejected 1 of 1 spans"
    ],
    [
      "does not know the path",
      { status: 404, body: TOKEN },
      "HTTP 404: check the path; OTLP/HTTP paths end in /v1/traces"
    ],
    [
      "echoes the header that authenticates",
      { status: 403, body: `Bearer ${TOKEN}`, headers: { "www-authenticate": TOKEN } },
      "HTTP 403: check the authentication headers"
    ],
    ["is away for a moment, without asking again", { status: 503 }, "HTTP 503"],
    ["hangs up", "hang up", "connection closed before a response"]
  ] as const) {
    it.effect(`a test fails if the collector ${what}`, () =>
      Effect.gen(function* () {
        const { id, key, peer } = yield* newTelemetryOrg(what, answer)
        const { body, status } = yield* test(key, id)
        assert.deepStrictEqual([status, body["code"], body["detail"]], [502, "EXPORT_FAILED", phrase])
        assert.notInclude(JSON.stringify(body), TOKEN)
        assert.lengthOf(peer.exports, 1)
      })
    )
  }
})
