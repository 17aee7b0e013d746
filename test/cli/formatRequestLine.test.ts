import { assert, describe, it } from "@effect/vitest"
import { type Duration, Effect, Fiber, Layer } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { TestClock, TestConsole } from "effect/testing"
import { formatLogTime } from "../../src/cli/formatRequestLine.ts"
import { layerLog } from "../../src/cli/log.ts"
import { KeyId, OrgId } from "../../src/domain/Ids.ts"
import * as RequestLog from "../../src/server/http/RequestLog.ts"

const key = KeyId.make(`key_${"1".repeat(32)}`)
const org = OrgId.make(`org_${"2".repeat(32)}`)
const trace = "0af7651916cd43dd8448eb211c80319c"
const now = new Date(2026, 10, 24, 20, 31, 2, 123)

/** Logs a request to a list of tasks in the format for people. */
const logRequest = (options: {
  readonly status: number
  readonly sampleRatio?: number
  readonly duration?: Duration.Input
  readonly traceparent?: string
  readonly isKnown?: boolean
}) =>
  Effect.gen(function* () {
    const { caller, logged, operation } = yield* RequestLog.makeRequestLog
    const response = Effect.delay(
      Effect.succeed(HttpServerResponse.text("x".repeat(512), { status: options.status })),
      options.duration ?? 0
    )
    const list = { endpoint: { identifier: "list", path: "/v1/tasks" }, group: { identifier: "tasks" } }
    const known = operation(list, caller({ actor: { id: key, name: "Ann" }, org_id: org }, response))
    yield* logged("req_00000000", options.isKnown === false ? response : known)
  }).pipe(
    Effect.provide(
      Layer.mergeAll(
        layerLog("pretty"),
        RequestLog.layer({
          requests: true,
          sampleRatio: options.sampleRatio ?? 1,
          slowMillis: 5_000
        })
      )
    ),
    Effect.provideService(
      HttpServerRequest.HttpServerRequest,
      HttpServerRequest.fromWeb(
        new Request("http://localhost/other?token=s3cret", {
          headers: { traceparent: options.traceparent ?? "", authorization: "Bearer s3cret" }
        })
      )
    )
  )

describe("the log of requests for people", () => {
  it.effect("has one dated line per request with its facts, without unknown ones", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(now.getTime())
      yield* logRequest({ status: 200, traceparent: `00-${trace}-b7ad6b7169203331-01` })
      yield* logRequest({ status: 401, isKnown: false })
      yield* logRequest({ status: 500 })
      yield* logRequest({ status: 204, sampleRatio: 0.5 })
      const date = "2026-11-24 20:31:02.123"
      assert.deepStrictEqual(yield* TestConsole.errorLines, [
        `${date} INFO  GET /v1/tasks 200 0 ms 512 B ${key} ${org} req_00000000 trace_id=${trace}`,
        `${date} INFO  GET (unknown path) 401 0 ms 512 B req_00000000`,
        `${date} WARN  GET /v1/tasks 500 0 ms 512 B ${key} ${org} req_00000000`,
        `${date} INFO  GET /v1/tasks 204 0 ms 512 B ${key} ${org} req_00000000 sample_ratio=0.5`
      ])
    })
  )

  it.effect("names slow requests in their line", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(now.getTime())
      const slow = yield* Effect.forkChild(logRequest({ status: 200, duration: "6 seconds" }))
      yield* TestClock.adjust("6 seconds")
      yield* Fiber.join(slow)
      assert.deepStrictEqual(yield* TestConsole.errorLines, [
        `2026-11-24 20:31:08.123 WARN  Slow request: GET /v1/tasks 200 6000 ms 512 B ${key} ${org} req_00000000`
      ])
    })
  )

  it.effect("does not change other lines, except that they are dated", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(now.getTime())
      yield* Effect.annotateLogs(Effect.logInfo("Dropped spans", { spans: 3 }), {
        method: "POST",
        status: 200
      })
      const [first, ...others] = (yield* TestConsole.errorLines).map(String)
      assert.match(first ?? "", /^\[2026-11-24 20:31:02\.123\] INFO \(#\d+\): Dropped spans$/)
      assert.isAbove(others.length, 1)
    }).pipe(Effect.provide(layerLog("pretty")))
  )

  it("pads each part of a date", () => {
    assert.strictEqual(formatLogTime(new Date(2027, 0, 2, 3, 4, 5, 6)), "2027-01-02 03:04:05.006")
  })
})
