import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { HttpClientRequest, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { yieldToPromises } from "../yieldToPromises.ts"
import { SessionId } from "../../../src/domain/Ids.ts"
import { ServiceUnreachable } from "../../../src/client/ServiceUnreachable.ts"
import { makeFollower } from "../../../src/client/connect/sessionEvents.ts"
import { type EventStreamOptions, makeStream } from "../../../src/client/stream.ts"

const id = SessionId.make("ses_0000000000000000000000000000000a")
const request = HttpClientRequest.get("http://service/stream")

/** An event in the service's format. */
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
  | "refused"
  | "silent"
  | { readonly status?: number; readonly type?: string; readonly body?: string }

/** A service with one scripted response per connection; the last one repeats. */
const scripted = (script: ReadonlyArray<Script>) => {
  const cursors: Array<number | undefined> = []
  const stream = makeStream(makeFollower(), (_, after) => {
    const current = script[Math.min(cursors.push(after), script.length) - 1] ?? "refused"
    if (current === "refused") {
      const url = new URL(request.url)
      return Effect.fail(new ServiceUnreachable({ operation: "stream", method: "GET", url }, "ECONNREFUSED"))
    }
    const {
      body = "",
      status = 200,
      type = "text/event-stream"
    } = current === "silent" ? { body: undefined } : current
    const content = current === "silent" ? new ReadableStream() : status === 204 ? null : body
    return Effect.succeed(
      HttpClientResponse.fromWeb(
        request,
        new Response(content, { status, headers: { "content-type": type } })
      )
    )
  })
  return { cursors, stream }
}

const problem = (status: number, code: string, fields: object = {}): Script => ({
  status,
  type: "application/problem+json",
  body: JSON.stringify({ type: `urn:problem-type:countersign:${code}`, title: "", status, code, ...fields })
})

/** Plays a script to its end. `steps` advance the clock; each yields the number of connections so far. */
const run = Effect.fnUntraced(function* (
  script: ReadonlyArray<Script>,
  steps: ReadonlyArray<number> = [],
  options?: EventStreamOptions
) {
  const { cursors, stream } = scripted(script)
  const seen: Array<number> = []
  const fiber = yield* stream(id, options).pipe(
    Stream.runForEach((event) => Effect.sync(() => void seen.push(event.id))),
    Effect.forkChild
  )
  const connections: Array<number> = []
  for (const millis of steps) {
    yield* yieldToPromises
    yield* TestClock.adjust(millis)
    yield* yieldToPromises
    connections.push(cursors.length)
  }
  return { cursors, connections, fiber, seen }
})

describe("Client.stream over broken connections", () => {
  it.effect("reconnects after the last event with the delay that the service asks for", () =>
    Effect.gen(function* () {
      const script = [
        { body: `retry: 1000\n\n${event(1)}${event(2)}` },
        { body: `retry: 1000\n\n${event(3)}id: 4\nevent: tool` },
        { body: event(4) + closed(5) }
      ]
      const { cursors, connections, fiber, seen } = yield* run(script, [999, 201, 799, 401])
      yield* Fiber.join(fiber)
      // A delay has up to 20% jitter and is never shorter; the second begins when the first has ended, after 1,000 to 1,200 ms.
      assert.deepStrictEqual(connections, [1, 2, 2, 3])
      assert.deepStrictEqual(cursors, [undefined, 2, 3])
      assert.deepStrictEqual(seen, [1, 2, 3, 4, 5])
    })
  )

  it.effect("closes a connection that is silent for 45 seconds", () =>
    Effect.gen(function* () {
      const { connections, fiber } = yield* run(["silent", { body: closed(1) }], [44_999, 1, 3_600])
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(connections, [1, 1, 2])
    })
  )

  it.effect("fails on a response outside the contract", () =>
    Effect.gen(function* () {
      const failure = (script: Script) =>
        Effect.flatMap(run([script]), ({ fiber }) => Effect.flip(Fiber.join(fiber)))
      assert.strictEqual((yield* failure(problem(404, "NOT_FOUND")))._tag, "NOT_FOUND")
      assert.strictEqual(
        (yield* failure({ type: "text/html", body: "Please log in" }))._tag,
        "UNEXPECTED_RESPONSE"
      )
      assert.strictEqual((yield* failure({ status: 302 }))._tag, "UNEXPECTED_RESPONSE")
      assert.strictEqual(
        (yield* failure({ body: event(1, "tool:outcome", { status: "so-so" }) }))._tag,
        "UNEXPECTED_RESPONSE"
      )
    })
  )
})
