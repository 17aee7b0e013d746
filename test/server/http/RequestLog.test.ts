import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Redacted, References } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { TestClock } from "effect/testing"
import * as RequestLog from "../../../src/server/http/RequestLog.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { send, service } from "../../support/service.ts"

/** The annotations and messages of the lines about requests. */
const collectRequests = () => {
  const lines: Array<Readonly<Record<string, unknown>>> = []
  const collector = Logger.make<unknown, void>(({ fiber, logLevel, message }) => {
    const annotations = fiber.getRef(References.CurrentLogAnnotations)
    if ("route" in annotations) lines.push({ level: logLevel, message: [message].flat()[0], ...annotations })
  })
  return { lines, layer: Logger.layer([collector]) }
}

const requests = Effect.gen(function* () {
  const key = yield* (yield* Countersign).key()
  const created = yield* send("/v1/agent-sessions", { method: "POST", key, body: "{}" })
  yield* send(
    `/v1/agent-sessions/${String(created.body["session_id"])}/steps/s3cret-step/outcome?token=s3cret`,
    {
      method: "POST",
      key,
      body: "{"
    }
  )
  yield* send("/v1/agent-sessions/s3cret", { key: "csk_s3cret" })
  yield* send("/s3cret")
  yield* send("/healthz")
  yield* send(`/verify-email?token=${"s3cret".padEnd(43, "A")}`)
  return created
})

describe("the log of requests", () => {
  it.live("has a line per request with its route, status and caller, and no text of the caller's", () =>
    Effect.gen(function* () {
      const log = collectRequests()
      const created = yield* Effect.provide(
        requests,
        service({ environment: { COUNTERSIGN_LOG_REQUESTS: "true" } }).pipe(Layer.provideMerge(log.layer))
      )
      assert.deepStrictEqual(
        log.lines.map(({ message }) => message),
        [
          "POST /v1/agent-sessions 201",
          "POST /v1/agent-sessions/:id/steps/:step_id/outcome 400",
          "GET /v1/agent-sessions/:id 401",
          "GET (unknown path) 404",
          "GET /verify-email 200"
        ]
      )
      const [first, second, third] = log.lines
      assert.deepInclude(first, {
        method: "POST",
        status: 201,
        operation: "sessions.create",
        route: "/v1/agent-sessions",
        request_id: created.headers.get("x-request-id"),
        bytes: Number(created.headers.get("content-length")),
        trace_id: null,
        sample_ratio: 1
      })
      assert.isNumber(first?.["ms"])
      assert.match(String(first?.["org_id"]), /^org_/)
      assert.match(String(first?.["key_id"]), /^key_/)
      assert.strictEqual(second?.["org_id"], first?.["org_id"])
      assert.deepInclude(third, { org_id: null, key_id: null })
      assert.notInclude(JSON.stringify(log.lines), "s3cret")
    })
  )

  it.live("never contains keys, cookies, tokens, query strings or other headers of the caller", () =>
    Effect.gen(function* () {
      const log = collectRequests()
      yield* Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const secret = "s3cret"
        const headers = { cookie: `__Host-countersign=${secret}`, "x-api-key": secret, "user-agent": secret }
        yield* send(`/v1/agent-sessions?limit=1&cursor=${secret}`, { key, headers })
        yield* send(`/v1/runs/${secret}/end-user-feedback`, {
          method: "POST",
          key: `cft_${secret}`,
          headers,
          body: `{"comment":"${secret}"}`
        })
        yield* send(`/console/api/session/${secret}?token=${secret}`, { headers })
        yield* send(`/console/sign-in/callback?code=${secret}&state=${secret}`, { headers })
        yield* send(`/${secret}/${secret}?${secret}`, { headers: { ...headers, traceparent: secret } })
        yield* send("/v1/agent-sessions", { method: "POST", key, body: `{"${secret}":"${secret}"}` })
        assert.isAtLeast(log.lines.length, 6)
        assert.notInclude(JSON.stringify(log.lines), secret)
        assert.notInclude(JSON.stringify(log.lines), Redacted.value(key))
      }).pipe(
        Effect.provide(
          service({ environment: { COUNTERSIGN_LOG_REQUESTS: "true" } }).pipe(Layer.provideMerge(log.layer))
        )
      )
    })
  )

  it.live("has the caller's trace id, and counts the bytes of streams at their end", () =>
    Effect.gen(function* () {
      const log = collectRequests()
      yield* Effect.gen(function* () {
        const { key: makeKey, url } = yield* Countersign
        const key = yield* makeKey()
        const trace = "0af7651916cd43dd8448eb211c80319c"
        yield* send("/openapi.json", { headers: { traceparent: `00-${trace}-b7ad6b7169203331-01` } })
        yield* send("/openapi.json", { headers: { traceparent: `00-${"0".repeat(32)}-b7ad6b7169203331-01` } })
        assert.deepStrictEqual(
          log.lines.map((line) => line["trace_id"]),
          [trace, null]
        )
        const bytes = yield* Effect.promise(async () => {
          const headers = { authorization: `Bearer ${Redacted.value(key)}` }
          return (await (await fetch(`${url}/v1/audit-log/export`, { headers })).arrayBuffer()).byteLength
        })
        assert.isAbove(bytes, 0)
        const line = yield* eventually(
          Effect.sync(() => log.lines.find((one) => one["route"] === "/v1/audit-log/export")),
          (found) => found !== undefined
        )
        assert.strictEqual(line?.["status"], 200)
        assert.strictEqual(line?.["bytes"], bytes)
      }).pipe(
        Effect.provide(
          service({ environment: { COUNTERSIGN_LOG_REQUESTS: "true" } }).pipe(Layer.provideMerge(log.layer))
        )
      )
    })
  )

  it.effect(
    "has every 5xx and every slow request whatever the sample, and requests whose client disconnected",
    () =>
      Effect.gen(function* () {
        const log = collectRequests()
        const logged = (sampleRatio: number, answer: Effect.Effect<HttpServerResponse.HttpServerResponse>) =>
          Effect.exit(
            Effect.flatMap(RequestLog.makeRequestLog, ({ logged: withLine }) =>
              withLine("req_00000000", answer)
            )
          ).pipe(
            Effect.provide(RequestLog.layer({ requests: true, sampleRatio, slowMillis: 600 })),
            Effect.provideService(
              HttpServerRequest.HttpServerRequest,
              HttpServerRequest.fromWeb(new Request("http://localhost/healthz"))
            ),
            Effect.provide(log.layer)
          )
        const respond = (status: number) => Effect.succeed(HttpServerResponse.empty({ status }))
        yield* logged(0, respond(204))
        yield* logged(0, respond(502))
        const slow = yield* Effect.forkChild(logged(0, Effect.delay(respond(200), "1 second")))
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(slow)
        yield* logged(1, Effect.interrupt)
        assert.deepStrictEqual(
          log.lines.map(({ bytes, sample_ratio, status }) => ({ bytes, sample_ratio, status })),
          [
            { bytes: 0, sample_ratio: 1, status: 502 },
            { bytes: 0, sample_ratio: 1, status: 200 },
            { bytes: 0, sample_ratio: 1, status: 499 }
          ]
        )
      })
  )

  it.effect("has no line of a probe or a scrape that succeeds, and one of each that fails", () =>
    Effect.gen(function* () {
      const log = collectRequests()
      const logged = (path: string, status: number) =>
        Effect.flatMap(RequestLog.makeRequestLog, ({ logged: withLine }) =>
          withLine("req_00000000", Effect.succeed(HttpServerResponse.empty({ status })))
        ).pipe(
          Effect.provide(RequestLog.layer({ requests: true, sampleRatio: 1, slowMillis: 0 })),
          Effect.provideService(
            HttpServerRequest.HttpServerRequest,
            HttpServerRequest.fromWeb(new Request(`http://localhost${path}`))
          ),
          Effect.provide(log.layer)
        )
      for (const path of ["/healthz", "/readyz?verbose", "/metrics"]) {
        yield* logged(path, 200)
        yield* logged(path, 503)
      }
      yield* logged("/metrics", 401)
      yield* logged("/openapi.json", 200)
      assert.deepStrictEqual(
        log.lines.map(({ level, message }) => [level, message]),
        [
          ["Warn", "GET /healthz 503"],
          ["Warn", "GET /readyz 503"],
          ["Warn", "GET /metrics 503"],
          ["Info", "GET /metrics 401"],
          ["Info", "GET /openapi.json 200"]
        ]
      )
    })
  )

  it.live("has a sample of the requests that says its ratio", () =>
    Effect.gen(function* () {
      const log = collectRequests()
      yield* Effect.gen(function* () {
        for (let sent = 0; sent < 200; sent++) yield* send("/v1/tasks")
        assert.isAbove(log.lines.length, 60)
        assert.isBelow(log.lines.length, 140)
        assert.isTrue(log.lines.every((line) => line["sample_ratio"] === 0.5))
      }).pipe(
        Effect.provide(
          service({
            environment: {
              COUNTERSIGN_LOG_REQUESTS: "true",
              COUNTERSIGN_LOG_REQUESTS_SAMPLE_RATIO: "0.5"
            }
          }).pipe(Layer.provideMerge(log.layer))
        )
      )
    })
  )

  it.live(
    "names slow requests, also without a line for each; one that waits for a person's decision is not",
    () =>
      Effect.gen(function* () {
        const log = collectRequests()
        yield* Effect.gen(function* () {
          const { key: makeKey, url } = yield* Countersign
          const key = yield* makeKey()
          yield* send("/v1/hooks/claude-code?wait_seconds=1", {
            method: "POST",
            key,
            body: JSON.stringify({
              hook_event_name: "PreToolUse",
              session_id: "one",
              tool_name: "Bash",
              tool_use_id: "toolu_1",
              tool_input: { command: "ls" }
            })
          })
          const created = yield* send("/v1/agent-sessions", { method: "POST", key, body: "{}" })
          const session = `/v1/agent-sessions/${String(created.body["session_id"])}`
          const step = '{"step_id":"1","tool":"mail.send","action_class":"execute","arguments":{}'
          yield* send(`${session}/steps?wait_seconds=1`, { method: "POST", key, body: `${step}}` })
          const parts = [step, "}"]
          yield* Effect.promise(() =>
            fetch(`${url}${session}/steps?wait_seconds=0`, {
              method: "POST",
              headers: { authorization: `Bearer ${Redacted.value(key)}`, "content-type": "application/json" },
              // The pause begins when the headers and the first part have been written, not before the connection is open.
              body: new ReadableStream(
                {
                  async pull(body) {
                    const part = parts.shift()
                    if (part === "}") await new Promise((resolve) => setTimeout(resolve, 1_000))
                    if (part === undefined) body.close()
                    else body.enqueue(new TextEncoder().encode(part))
                  }
                },
                { highWaterMark: 0 }
              ),
              duplex: "half"
            })
          )
          const [slow, ...others] = log.lines
          assert.deepStrictEqual(others, [])
          assert.deepInclude(slow, {
            message: "Slow request: POST /v1/agent-sessions/:id/steps 200",
            operation: "sessions.step",
            slow: true
          })
          assert.isAtLeast(Number(slow?.["ms"]), 650)
          assert.notProperty(slow, "sample_ratio")
        }).pipe(
          Effect.provide(
            service({ environment: { COUNTERSIGN_SLOW_REQUEST_MILLIS: "600" } }).pipe(
              Layer.provideMerge(log.layer)
            )
          )
        )
      })
  )

  it.live("is off by default", () =>
    Effect.gen(function* () {
      const log = collectRequests()
      yield* Effect.provide(requests, service().pipe(Layer.provideMerge(log.layer)))
      assert.deepStrictEqual(log.lines, [])
    })
  )
})
