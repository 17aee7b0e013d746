import { assert, describe, it } from "@effect/vitest"
import { makeApprovalWaits } from "../../../src/client/connect/approvalWaits.ts"
import type { EventSource, SessionFollower } from "../../../src/client/connect/sessionEvents.ts"
import { systemClock } from "../../../src/client/connect/wait.ts"
import type { ApprovalSnapshot, SessionEvent } from "../../../src/client/index.ts"
import { pendingApproval } from "../../support/approvals.ts"

const id = `ses_${"a".repeat(32)}`
const at = new Date("2026-11-21T02:33:05.123Z")

const snapshot = (approval_id: string): ApprovalSnapshot => ({
  ...pendingApproval,
  approval_id,
  session_id: id,
  step_id: approval_id,
  tool: "shell",
  status: "approved",
  requested_at: at,
  review_deadline_at: at,
  expires_at: at,
  outcome: "allow",
  decision_source: "human",
  decided_at: at
})

const signal = new AbortController().signal

/** The fake follower opens no connections. */
const source: EventSource<SessionEvent> = { clock: systemClock, open: async () => undefined }

/** A session whose events a test publishes. A stream first repeats those after its cursor, as the service does. */
const makeSession = () => {
  const events: Array<SessionEvent> = []
  /** The cursors of all streams. */
  const opened: Array<number | undefined> = []
  const running = new Set<{ readonly wake: () => void; readonly fail: (error: unknown) => void }>()
  let latest: number | undefined
  let isClosed = false

  const follower: SessionFollower<SessionEvent> = {
    lastSeen: () => latest,
    async *stream(_, __, { after = 0 }, signal) {
      opened.push(after === 0 ? undefined : after)
      let position = after
      for (;;) {
        for (const event of events.filter((each) => each.id > position)) {
          signal.throwIfAborted()
          position = event.id
          latest = Math.max(latest ?? 0, event.id)
          yield event
        }
        if (isClosed) return
        if (events.some((event) => event.id > position)) continue
        await new Promise<void>((resolve, reject) => {
          const entry = { wake: resolve, fail: reject }
          running.add(entry)
          const stop = () => {
            running.delete(entry)
            reject(signal.reason)
          }
          if (signal.aborted) stop()
          signal.addEventListener("abort", stop)
        })
      }
    }
  }

  const wake = () => {
    const waiting = [...running]
    running.clear()
    for (const entry of waiting) entry.wake()
  }
  const waits = makeApprovalWaits(follower, (event) =>
    event.type === "approval:decided" ? event.approval : undefined
  )
  return {
    listen: () => waits.listen(id, source),
    stream: () => follower.stream(source, id, {}, signal),
    opened,
    running,
    decide: (approval_id: string) => {
      events.push({
        id: events.length + 1,
        type: "approval:decided",
        session_id: id,
        step_id: approval_id,
        occurred_at: at,
        approval: snapshot(approval_id)
      })
      wake()
    },
    close: () => {
      isClosed = true
      wake()
    },
    fail: (error: unknown) => {
      for (const entry of running) entry.fail(error)
      running.clear()
    }
  }
}

/** Lets promises settle that wait for nothing else. */
const settle = async () => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
}

describe("waits for approvals of one session", () => {
  it("share one stream, which ends with the last of them", async () => {
    const { decide, opened, running, listen } = makeSession()
    const [first, second, third] = [listen(), listen(), listen()]
    const both = [first.change("a", { signal }), second.change("b", { signal })]
    await settle()
    const late = third.change("c", { signal })
    decide("b")
    decide("c")
    assert.strictEqual((await both[1])?.approval_id, "b")
    assert.strictEqual((await late)?.approval_id, "c")
    await settle()
    assert.strictEqual(running.size, 1)
    decide("a")
    assert.strictEqual((await both[0])?.approval_id, "a")
    await settle()
    assert.strictEqual(running.size, 0)
    assert.deepStrictEqual(opened, [undefined])
  })

  it("see a decision that the stream received while the step was requested", async () => {
    const { decide, opened, listen } = makeSession()
    const first = listen().change("a", { signal })
    const second = listen()
    await settle()
    decide("b")
    await settle()
    assert.strictEqual((await second.change("b", { signal }))?.approval_id, "b")
    decide("a")
    await first
    assert.strictEqual(opened.length, 1)
  })

  it("see a decision that another stream of the client received before theirs was opened", async () => {
    const { decide, stream, opened, listen } = makeSession()
    decide("x")
    const other = stream()
    await other.next()
    const early = listen()
    decide("early")
    await other.next()
    const late = listen()
    const waitOfLate = late.change("late", { signal })
    await settle()
    assert.strictEqual((await early.change("early", { signal }))?.approval_id, "early")
    decide("late")
    assert.strictEqual((await waitOfLate)?.approval_id, "late")
    assert.deepStrictEqual(opened, [undefined, 1])
  })

  it("end one by one when they are aborted", async () => {
    const { decide, running, listen } = makeSession()
    const stop = new AbortController()
    const stopped = listen().change("a", { signal: stop.signal })
    const waiting = listen().change("b", { signal })
    await settle()
    stop.abort("enough")
    assert.strictEqual(await stopped.catch((error: unknown) => error), "enough")
    assert.strictEqual(running.size, 1)
    decide("b")
    assert.strictEqual((await waiting)?.approval_id, "b")
  })

  it("all fail with their stream, and all end with their session; the next one opens another", async () => {
    const { close, fail, opened, listen } = makeSession()
    const listeners = [listen(), listen()]
    const failing = listeners.map((listener) => listener.change("a", { signal }))
    await settle()
    fail("no such session")
    for (const wait of failing)
      assert.strictEqual(await wait.catch((error: unknown) => error), "no such session")
    const ending = listeners.map((listener) => listener.change("a", { signal }))
    await settle()
    close()
    assert.deepStrictEqual(await Promise.all(ending), [undefined, undefined])
    assert.strictEqual(opened.length, 2)
  })

  it("read from the oldest event after a rewind", async () => {
    const { decide, stream, opened, listen } = makeSession()
    decide("old")
    await stream().next()
    const listener = listen()
    listener.rewind()
    assert.strictEqual((await listener.change("old", { signal }))?.approval_id, "old")
    assert.deepStrictEqual(opened, [undefined, undefined])
  })
})
