import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { HttpClientError, HttpClientRequest, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { SessionId } from "../../../src/domain/Ids.ts"
import { makeFollower, type StreamOptions } from "../../../src/client/stream.ts"

const id = SessionId.make("ses_0000000000000000000000000000000a")
const request = HttpClientRequest.get("http://service/stream")

/** An event as the service writes it. */
const event = (number: number, type = "tool:outcome", fields: object = {}) =>
  `id: ${number}\nevent: ${type}\ndata: ${JSON.stringify({
    id: number,
    type,
    session_id: id,
    step_id: "step 1",
    occurred_at: "2026-11-21T02:33:05.123Z",
    tool: "search",
    status: "succeeded",
    error: null,
    ...fields
  })}\n\n`
const closed = (number: number) => event(number, "session:closed", { step_id: null })

type Script =
  "refused" | "silent" | { readonly status?: number; readonly type?: string; readonly body?: string }

/** A service that answers each connection as scripted; the last entry goes on for ever. */
const scripted = (script: ReadonlyArray<Script>) => {
  const asked: Array<number | undefined> = []
  const follower = makeFollower((_, after) => {
    const now = script[Math.min(asked.push(after), script.length) - 1] ?? "refused"
    if (now === "refused") {
      const reason = new HttpClientError.TransportError({ request, description: "refused" })
      return Effect.fail(new HttpClientError.HttpClientError({ reason }))
    }
    const {
      body = "",
      status = 200,
      type = "text/event-stream"
    } = now === "silent" ? { body: undefined } : now
    const content = now === "silent" ? new ReadableStream() : status === 204 ? null : body
    return Effect.succeed(
      HttpClientResponse.fromWeb(
        request,
        new Response(content, { status, headers: { "content-type": type } })
      )
    )
  })
  return { asked, follower }
}

const problem = (status: number, code: string, fields: object = {}): Script => ({
  status,
  type: "application/problem+json",
  body: JSON.stringify({ type: `urn:problem-type:countersign:${code}`, title: "", status, code, ...fields })
})

/** Follows a script to its end. Time is moved on by `steps`; after each, how often was connected by then. */
const run = Effect.fnUntraced(function* (
  script: ReadonlyArray<Script>,
  steps: ReadonlyArray<number> = [],
  options?: StreamOptions
) {
  const { asked, follower } = scripted(script)
  const seen: Array<number> = []
  const fiber = yield* follower.stream(id, options).pipe(
    Stream.runForEach((event) => Effect.sync(() => void seen.push(event.id))),
    Effect.forkChild
  )
  const connections: Array<number> = []
  for (const millis of steps) {
    yield* settled
    yield* TestClock.adjust(millis)
    yield* settled
    connections.push(asked.length)
  }
  return { asked, connections, fiber, seen }
})

/** Bodies of answers come over promises: gives them a turn of the event loop. */
const settled = Effect.promise(() => new Promise((resolve) => setImmediate(() => setImmediate(resolve))))

describe("following a session", () => {
  it.effect("connects again after the last event, in the time that the service asks for", () =>
    Effect.gen(function* () {
      const script = [
        { body: `retry: 1000\n\n${event(1)}${event(2)}` },
        { body: `retry: 1000\n\n${event(3)}id: 4\nevent: tool` },
        { body: event(4) + closed(5) }
      ]
      const { asked, connections, fiber, seen } = yield* run(script, [999, 201, 999, 201])
      yield* Fiber.join(fiber)
      // A wait is up to a fifth longer than asked for, and never shorter.
      assert.deepStrictEqual(connections, [1, 2, 2, 3])
      assert.deepStrictEqual(asked, [undefined, 2, 3])
      assert.deepStrictEqual(seen, [1, 2, 3, 4, 5])
    })
  )

  it.effect("waits twice as long after each failure, up to 30 seconds, and anew after a success", () =>
    Effect.gen(function* () {
      const down: ReadonlyArray<Script> = [
        "refused",
        problem(503, "UNAVAILABLE"),
        { status: 502, type: "text/html" }
      ]
      const script: ReadonlyArray<Script> = [
        ...down,
        "refused",
        { body: `retry: 3000\n\n${event(1)}` },
        { body: closed(2) }
      ]
      const moves = Array.from({ length: 200 }, () => 500)
      const { connections, fiber } = yield* run(script, moves, { after: 0 })
      yield* Fiber.join(fiber)
      // The time of each connection after the first, to the half second, and from it the waits.
      const times = [1, 2, 3, 4, 5].map((count) => connections.findIndex((by) => by > count) * 500)
      const waits = times.map((time, index) => time - (times[index - 1] ?? 0))
      for (const [index, asked] of [6_000, 12_000, 24_000, 30_000, 3_000].entries()) {
        assert.isAtLeast(waits[index] ?? 0, asked - 500)
        assert.isAtMost(waits[index] ?? 0, asked * 1.2 + 500)
      }
    })
  )

  it.effect("comes back to a service that has too much to do, no sooner than it asks for", () =>
    Effect.gen(function* () {
      const script = [problem(429, "RATE_LIMITED", { retry_after_seconds: 60 }), { body: closed(1) }]
      const { connections, fiber } = yield* run(script, [59_999, 12_002])
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(connections, [1, 2])
    })
  )

  it.effect("takes a connection that is silent for 45 seconds for dead", () =>
    Effect.gen(function* () {
      const { connections, fiber } = yield* run(["silent", { body: closed(1) }], [44_999, 1, 3_600])
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(connections, [1, 1, 2])
    })
  )

  it.effect("ends at 204, sees nothing twice, and passes over what it does not know", () =>
    Effect.gen(function* () {
      const script = [
        { body: event(1) + event(2) },
        { body: event(2) + event(3, "robot:rebelled") + event(4) },
        { status: 204 }
      ]
      const { asked, fiber, seen } = yield* run(script, [3_600, 3_600])
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(seen, [1, 2, 4])
      assert.deepStrictEqual(asked, [undefined, 2, 4])
    })
  )

  it.effect("fails at what is no answer of the contract", () =>
    Effect.gen(function* () {
      const failure = (script: Script) =>
        Effect.flatMap(run([script]), ({ fiber }) => Effect.flip(Fiber.join(fiber)))
      assert.strictEqual((yield* failure(problem(404, "NOT_FOUND")))._tag, "NOT_FOUND")
      assert.strictEqual(
        (yield* failure({ type: "text/html", body: "Please log in" }))._tag,
        "HttpClientError"
      )
      assert.strictEqual((yield* failure({ status: 302 }))._tag, "HttpClientError")
      assert.strictEqual(
        (yield* failure({ body: event(1, "tool:outcome", { status: "so-so" }) }))._tag,
        "SchemaError"
      )
    })
  )
})
