import { assert, describe, it } from "@effect/vitest"
import { afterEach, vi } from "vitest"
import { connect, isProblem, type StreamOptions } from "../../../src/client/index.ts"
import { fakeService, realService, type ScriptedResponse } from "./fakeService.ts"

const id = "ses_0000000000000000000000000000000a"

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

const events = (...parts: ReadonlyArray<string>): ScriptedResponse => ({
  headers: { "content-type": "text/event-stream" },
  body: parts.join("")
})
const silent = (): ScriptedResponse => ({
  headers: { "content-type": "text/event-stream" },
  body: new ReadableStream()
})
const problem = (status: number, code: string, fields: object = {}): ScriptedResponse => ({
  status,
  headers: { "content-type": "application/problem+json" },
  body: JSON.stringify({ type: `urn:problem-type:countersign:${code}`, title: "", status, code, ...fields })
})

/** Follows a session through a script; returns the events, the cursors of the connections, their times, and the error. */
const follow = async (script: ReadonlyArray<ScriptedResponse>, options: StreamOptions = {}) => {
  const fetched = fakeService(script)
  const start = Date.now()
  const client = connect({ url: "http://service", key: "csk_key", retries: 0 })
  const seen: Array<number> = []
  let error: unknown
  const following = (async () => {
    try {
      for await (const { id: number, occurred_at } of client.stream(id, options)) {
        assert.instanceOf(occurred_at, Date)
        seen.push(number)
      }
    } catch (thrown) {
      error = thrown
    }
  })()
  await vi.advanceTimersByTimeAsync(600_000)
  await following
  return {
    seen,
    error,
    cursors: fetched.map(({ url }) => url.searchParams.get("after")),
    delays: fetched.slice(1).map(({ at }, index) => at - (fetched[index]?.at ?? start))
  }
}

const between = (delay: number | undefined, low: number, high: number) =>
  assert.isTrue(
    delay !== undefined && delay >= low && delay <= high,
    `${delay} is not from ${low} to ${high}`
  )

describe("connect's stream over broken connections", () => {
  afterEach(realService)

  it("reconnects after the last event with the delay that the service asks for", async () => {
    const { cursors, delays, seen } = await follow([
      events("retry: 1000\n\n", event(1), event(2)),
      events("retry: 1000\n\n", event(3), "id: 4\nevent: tool"),
      events(event(4), closed(5))
    ])
    assert.deepStrictEqual(seen, [1, 2, 3, 4, 5])
    assert.deepStrictEqual(cursors, [null, "2", "3"])
    // A delay has up to 20% jitter and is never shorter.
    for (const delay of delays) between(delay, 1_000, 1_200)
  })

  it("doubles the delay after each failure up to 30 seconds, and resets it after a success", async () => {
    const { delays, seen } = await follow(
      [
        "no connection",
        problem(503, "UNAVAILABLE"),
        { status: 502, headers: { "content-type": "text/html" } },
        "no connection",
        events("retry: 3000\n\n", event(1)),
        events(closed(2))
      ],
      { after: 0 }
    )
    assert.deepStrictEqual(seen, [1, 2])
    for (const [index, delay] of [6_000, 12_000, 24_000, 30_000, 3_000].entries()) {
      between(delays[index], delay, delay * 1.2)
    }
  })

  it("reconnects to a busy service no sooner than it asks for", async () => {
    const limited = problem(429, "RATE_LIMITED", { retry_after_seconds: 60 })
    const { delays } = await follow([limited, events(closed(1))])
    between(delays[0], 60_000, 72_000)
  })

  it("closes a connection that is silent for 45 seconds", async () => {
    const { delays } = await follow([silent(), events(closed(1))])
    between(delays[0], 48_000, 48_600)
  })

  it("ends at 204, yields no event twice, and ignores unknown event types", async () => {
    const { cursors, seen } = await follow([
      events(event(1), event(2)),
      events(event(2), event(3, "robot:rebelled"), event(4)),
      { status: 204 }
    ])
    assert.deepStrictEqual(seen, [1, 2, 4])
    assert.deepStrictEqual(cursors, [null, "2", "4"])
  })

  it("reads lines that end in any way and characters that are cut", async () => {
    const bytes = new TextEncoder().encode(
      `\u{feff}: heartbeat\r\n\r\n${event(1, "tool:outcome", { tool: "crêpe 🥞" }).replaceAll("\n", "\r\n")}${closed(2)}`
    )
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
        controller.close()
      }
    })
    const { error, seen } = await follow([{ headers: { "content-type": "text/event-stream" }, body }])
    assert.isUndefined(error)
    assert.deepStrictEqual(seen, [1, 2])
  })

  it("fails with the problem if a retry would not help, and on a response outside the contract", async () => {
    const gone = await follow([problem(410, "CURSOR_EXPIRED", { first_kept: 7 })])
    assert.isTrue(isProblem(gone.error, "CURSOR_EXPIRED") && gone.error.first_kept === 7)
    for (const response of [
      { headers: { "content-type": "text/html" }, body: "Please log in" },
      { status: 302 },
      events(event(1, "tool:outcome", { status: "so-so" })),
      events("data: {\n\n", "event: tool:outcome\ndata: {\n\n"),
      events(`event: tool:outcome\ndata: ${"x".repeat(11 * 2 ** 20)}`)
    ]) {
      const { error } = await follow([response])
      assert.isTrue(isProblem(error, "UNEXPECTED_RESPONSE"), String(error))
    }
  })

  it("stops at once when its signal aborts, between two events of one packet, too", async () => {
    fakeService([events(event(1), event(2))])
    const client = connect({ url: "http://service", key: "csk_key" })
    const controller = new AbortController()
    const seen: Array<number> = []
    const reason = new Error("enough")
    let thrown: unknown
    try {
      for await (const { id: number } of client.stream(id, { signal: controller.signal })) {
        seen.push(number)
        controller.abort(reason)
      }
    } catch (error) {
      thrown = error
    }
    assert.strictEqual(thrown, reason)
    assert.deepStrictEqual(seen, [1])
  })
})
