import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, type Scope } from "effect"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { gunzipSync } from "node:zlib"
import { StepId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { send, service } from "../../support/service.ts"
import { listenOnFreePort } from "../../support/listenOnFreePort.ts"

interface Export {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** A collector that accepts everything; with "never" it does not respond. */
const collector = (
  answer: "ok" | "never" = "ok"
): Effect.Effect<{ readonly url: string; readonly exports: ReadonlyArray<Export> }, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const exports: Array<Export> = []
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const body = Buffer.concat(chunks)
          const text = (request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString()
          exports.push({ path: request.url ?? "", headers: request.headers, text })
          if (answer === "ok") response.writeHead(200, { "content-type": "application/json" }).end("{}")
        })
      })
      const port = await listenOnFreePort(server)
      return { server, url: `http://127.0.0.1:${port}/otlp`, exports }
    }),
    ({ server }) =>
      Effect.promise(async () => {
        server.closeAllConnections()
        await new Promise((done) => server.close(done))
      })
  )

/** A few requests of each kind, then a graceful shutdown. */
const work = Effect.gen(function* () {
  const countersign = yield* Countersign
  const key = yield* countersign.key()
  const admin = yield* countersign.clientWith(key)
  const receiver = yield* startScriptedServer([{ status: 204 }])
  const { secret } = yield* admin.notificationEndpoints.create({
    payload: { url: `${receiver.url}/tenants-own-path` }
  })
  const { session_id } = yield* admin.sessions.create({})
  yield* admin.sessions.step({
    params: { id: session_id },
    payload: {
      step_id: StepId.make("1"),
      tool: "payments.refund",
      action_class: "write",
      arguments: { iban: "DE00" }
    }
  })
  yield* Effect.promise(() => receiver.arrived(1))
  yield* send("/v1/agent-sessions/ses_typed-by-somebody?token=typed-secret", { key })
  yield* send("/v1/feedback", {
    method: "POST",
    key,
    body: JSON.stringify({ inference_log_id: "x".repeat(40) })
  })
  return { key: Redacted.value(key), secret, receiver: receiver.url }
}).pipe(Effect.scoped)

const run = (environment: Readonly<Record<string, string>>) =>
  work.pipe(Effect.provide(Layer.fresh(service({ environment }))))

describe("OwnTelemetry", () => {
  it.live(
    "spans and metrics are exported with the service name and the configured headers",
    () =>
      Effect.gen(function* () {
        const { exports, url } = yield* collector()
        const secrets = yield* run({
          OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/`,
          OTEL_EXPORTER_OTLP_HEADERS: "x-team=a%20b,authorization=Bearer%20collector-token",
          OTEL_SERVICE_NAME: "countersign-eu",
          OTEL_RESOURCE_ATTRIBUTES: "team=a%20b, deployment.environment.name = eu"
        })
        const traces = exports.filter(({ path }) => path === "/otlp/v1/traces")
        const metrics = exports.filter(({ path }) => path === "/otlp/v1/metrics")
        assert.isAbove(traces.length, 0)
        assert.isAbove(metrics.length, 0)
        assert.lengthOf(traces.length + metrics.length === exports.length ? [] : exports, 0)
        for (const { headers } of exports) {
          assert.strictEqual(headers["x-team"], "a b")
          assert.strictEqual(headers.authorization, "Bearer collector-token")
          assert.include(headers["content-type"], "application/json")
        }
        const spans = traces.map(({ text }) => text).join("\n")
        assert.include(spans, `{"key":"service.name","value":{"stringValue":"countersign-eu"}}`)
        assert.include(spans, `{"key":"team","value":{"stringValue":"a b"}}`)
        assert.include(spans, `{"key":"deployment.environment.name","value":{"stringValue":"eu"}}`)
        assert.include(spans, `"name":"Notifications.create"`)
        assert.include(spans, `{"key":"http.route","value":{"stringValue":"/v1/agent-sessions/:id/steps"}}`)
        assert.include(spans, `"name":"Worker.delivery_results"`)
        assert.match(spans, /\{"key":"worker\.results","value":\{"intValue":\d+\}\}/)
        assert.include(metrics.map(({ text }) => text).join("\n"), "countersign_http_requests_total")
        // No tenant data and no secrets.
        const all = exports.map(({ text }) => text).join("\n")
        for (const hidden of [
          secrets.key,
          secrets.secret,
          secrets.receiver,
          "tenants-own-path",
          "typed-by-somebody",
          "typed-secret",
          "collector-token",
          "payments.refund",
          "DE00",
          "postgres://",
          "127.0.0.1"
        ]) {
          assert.notInclude(all, hidden)
        }
        assert.notMatch(all, /csk_|whsec_/)
      }),
    120_000
  )

  it.live(
    "a hanging collector delays neither requests nor the shutdown",
    () =>
      Effect.gen(function* () {
        const { exports, url } = yield* collector("never")
        const began = performance.now()
        yield* run({ OTEL_EXPORTER_OTLP_ENDPOINT: url })
        assert.isAbove(exports.length, 0)
        assert.isBelow(performance.now() - began, 30_000)
      }),
    120_000
  )

  it.live(
    "a signal with a URL of its own is sent there, and the other is not exported",
    () =>
      Effect.gen(function* () {
        const { exports, url } = yield* collector()
        yield* run({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/spans?here` })
        assert.isAbove(exports.length, 0)
        assert.deepStrictEqual([...new Set(exports.map(({ path }) => path))], ["/otlp/spans?here"])
        const both = yield* collector()
        yield* run({
          OTEL_EXPORTER_OTLP_ENDPOINT: both.url,
          OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${both.url}/figures`
        })
        assert.sameMembers(
          [...new Set(both.exports.map(({ path }) => path))],
          ["/otlp/v1/traces", "/otlp/figures"]
        )
      }),
    120_000
  )

  it.live(
    "nothing is exported without a collector, or if the SDK is disabled",
    () =>
      Effect.gen(function* () {
        const { exports, url } = yield* collector()
        yield* run({ OTEL_SERVICE_NAME: "countersign-eu" })
        yield* run({ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_SDK_DISABLED: "true" })
        assert.lengthOf(exports, 0)
      }),
    120_000
  )
})
