import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, References } from "effect"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"

/** The annotations and messages of the lines about requests. */
const collectRequests = () => {
  const lines: Array<Readonly<Record<string, unknown>>> = []
  const collector = Logger.make<unknown, void>(({ fiber, message }) => {
    const annotations = fiber.getRef(References.CurrentLogAnnotations)
    if ("route" in annotations) lines.push({ message: [message].flat()[0], ...annotations })
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
          "GET /healthz 200",
          "GET /verify-email 200"
        ]
      )
      const [first, second, third] = log.lines
      assert.deepInclude(first, {
        method: "POST",
        status: 201,
        operation: "sessions.create",
        route: "/v1/agent-sessions",
        request_id: created.headers.get("x-request-id")
      })
      assert.isNumber(first?.["ms"])
      assert.match(String(first?.["org_id"]), /^org_/)
      assert.match(String(first?.["key_id"]), /^key_/)
      assert.strictEqual(second?.["org_id"], first?.["org_id"])
      assert.deepInclude(third, { org_id: null, key_id: null })
      assert.notInclude(JSON.stringify(log.lines), "s3cret")
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
