/**
 * Processor time that the log of requests adds to a request, in microseconds: its middleware around a handler that does nothing, with
 * lines of JSON that go to /dev/null, which costs less than a pipe or a file. `off`: neither a line nor a threshold; `slow only`: the default.
 */
import { Console, Context, Effect, Layer } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { openSync, writeSync } from "node:fs"
import { layerLog } from "../../src/cli/log.ts"
import { KeyId, OrgId, uuidV7Hex } from "../../src/domain/Ids.ts"
import * as RequestLog from "../../src/server/http/RequestLog.ts"
import { line, machine } from "./measure.ts"

const ROUNDS = 7
const CALLS = 20_000

const sink = openSync("/dev/null", "w")
const devNull: Console.Console = {
  ...console,
  error: (text: unknown) => void writeSync(sink, `${String(text)}\n`)
}

const principal = {
  org_id: OrgId.make(`org_${uuidV7Hex()}`),
  actor: { id: KeyId.make(`key_${uuidV7Hex()}`), name: "bench" }
}
const operation = {
  endpoint: { identifier: "create", path: "/v1/agent-sessions", annotations: Context.empty() },
  group: { identifier: "sessions" }
}
const response = HttpServerResponse.jsonUnsafe({ status: "ready" })

const measure = (settings: RequestLog.RequestLogSettings) =>
  Effect.gen(function* () {
    const log = yield* RequestLog.makeRequestLog
    const handler = log.operation(operation, log.caller(principal, Effect.succeed(response)))
    const calls = Effect.suspend(() => log.logged(`req_${uuidV7Hex()}`, handler)).pipe(
      Effect.repeat({ times: CALLS - 1 })
    )
    const rounds: Array<number> = []
    for (let round = 0; round <= ROUNDS; round++) {
      const before = process.cpuUsage()
      yield* calls
      const { system, user } = process.cpuUsage(before)
      // The first round warms up.
      if (round > 0) rounds.push((user + system) / CALLS)
    }
    return rounds
  }).pipe(
    Effect.provide(Layer.merge(RequestLog.layer(settings), layerLog("json"))),
    Effect.provideService(Console.Console, devNull),
    Effect.provideService(
      HttpServerRequest.HttpServerRequest,
      HttpServerRequest.fromWeb(new Request("http://localhost/v1/agent-sessions", { method: "POST" }))
    )
  )

console.log(machine())
const bare = { requests: false, sampleRatio: 1, slowMillis: 0 }
for (const [what, settings] of [
  ["off", bare],
  ["slow only", { ...bare, slowMillis: 5_000 }],
  ["one line in a hundred", { requests: true, sampleRatio: 0.01, slowMillis: 5_000 }],
  ["a line per request", { requests: true, sampleRatio: 1, slowMillis: 5_000 }]
] as const) {
  console.log(line(what, await Effect.runPromise(measure(settings)), "µs"))
}
