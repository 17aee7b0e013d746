import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, PubSub, Schema, Stream } from "effect"
import { SessionEvent } from "../../src/api/SessionStream.ts"
import { NotFound } from "../../src/api/Problems.ts"
import { makeApprovalWaits } from "../../src/client/approvalWaits.ts"
import type { SessionFollower, StreamError } from "../../src/client/stream.ts"
import { ApprovalId, SessionId } from "../../src/domain/Ids.ts"
import { pendingApproval } from "../support/approvals.ts"

const id = SessionId.make(`ses_${"a".repeat(32)}`)
const at = "2026-11-21T02:33:05.123Z"
const approvalId = (letter: string) => ApprovalId.make(`apr_${letter.repeat(32)}`)

const decided = (number: number, approval: ApprovalId): SessionEvent =>
  Schema.decodeSync(Schema.toCodecJson(SessionEvent))({
    id: number,
    type: "approval:decided",
    session_id: id,
    step_id: "step 1",
    occurred_at: at,
    approval: {
      ...pendingApproval,
      approval_id: approval,
      session_id: id,
      tool: "shell",
      status: "approved",
      requested_at: at,
      review_deadline_at: at,
      expires_at: at,
      outcome: "allow",
      decision_source: "human",
      decided_at: at
    }
  })

/** A session whose events a test publishes. A stream first repeats those after its cursor, as the service does. */
const makeSession = Effect.gen(function* () {
  const events: Array<SessionEvent> = []
  const published = yield* PubSub.unbounded<SessionEvent | StreamError | "closed">()
  /** The cursors of all streams, and how many are open. */
  const opened: Array<number | undefined> = []
  let running = 0
  let latest: number | undefined

  const follower: SessionFollower = {
    lastSeen: () => latest,
    stream: (_, { after = 0 } = {}) =>
      Stream.unwrap(
        Effect.gen(function* () {
          opened.push(after === 0 ? undefined : after)
          running++
          yield* Effect.addFinalizer(() => Effect.sync(() => running--))
          const subscription = yield* PubSub.subscribe(published)
          const earlier = events.filter((event) => event.id > after)
          return Stream.concat(Stream.fromArray(earlier), Stream.fromSubscription(subscription)).pipe(
            Stream.takeWhile((event) => event !== "closed"),
            Stream.mapEffect((event) =>
              "_tag" in event
                ? Effect.fail(event)
                : Effect.sync(() => {
                    latest = Math.max(latest ?? 0, event.id)
                    return event
                  })
            )
          )
        })
      )
  }

  const decide = (approval: ApprovalId) =>
    Effect.suspend(() => {
      const event = decided(events.length + 1, approval)
      events.push(event)
      return PubSub.publish(published, event)
    })
  return {
    waits: makeApprovalWaits(follower),
    decide,
    opened,
    running: () => running,
    end: (last: StreamError | "closed") => PubSub.publish(published, last)
  }
})

/** Lets fibers run that wait for nothing else. */
const settle = Effect.repeat(Effect.yieldNow, { times: 50 })

describe("waits of the Effect client for approvals of one session", () => {
  it.effect("share one stream, which ends with the last of them", () =>
    Effect.gen(function* () {
      const { decide, opened, running, waits } = yield* makeSession
      const letters = ["a", "b", "c"]
      const fibers = yield* Effect.forEach(letters, (letter) =>
        Effect.flatMap(waits.listen(id), ({ closing }) =>
          Effect.forkChild(closing(approvalId(letter), undefined))
        )
      )
      yield* settle
      for (const letter of letters.toReversed()) {
        assert.strictEqual(running(), 1)
        yield* decide(approvalId(letter))
      }
      const approvals = yield* Effect.forEach(fibers, Fiber.join)
      assert.deepStrictEqual(
        approvals.map((approval) => approval?.approval_id),
        letters.map(approvalId)
      )
      yield* settle
      assert.strictEqual(running(), 0)
      assert.deepStrictEqual(opened, [undefined])
    }).pipe(Effect.scoped)
  )

  it.effect("see a decision that the stream received while the step was requested", () =>
    Effect.gen(function* () {
      const { decide, opened, waits } = yield* makeSession
      const first = yield* waits.listen(id)
      const waiting = yield* Effect.forkChild(first.closing(approvalId("a"), undefined))
      yield* settle
      const second = yield* waits.listen(id)
      yield* decide(approvalId("b"))
      yield* settle
      assert.strictEqual((yield* second.closing(approvalId("b"), undefined))?.approval_id, approvalId("b"))
      yield* decide(approvalId("a"))
      yield* Fiber.join(waiting)
      assert.strictEqual(opened.length, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("end one by one when they are interrupted", () =>
    Effect.gen(function* () {
      const { decide, running, waits } = yield* makeSession
      const wait = (letter: string) =>
        Effect.flatMap(waits.listen(id), ({ closing }) =>
          Effect.forkChild(closing(approvalId(letter), undefined))
        )
      const [stopped, waiting] = [yield* wait("a"), yield* wait("b")]
      yield* settle
      yield* Fiber.interrupt(stopped)
      assert.strictEqual(running(), 1)
      yield* decide(approvalId("b"))
      assert.strictEqual((yield* Fiber.join(waiting))?.approval_id, approvalId("b"))
    }).pipe(Effect.scoped)
  )

  it.effect("all fail with their stream, and all end with their session; the next one opens another", () =>
    Effect.gen(function* () {
      const { end, opened, waits } = yield* makeSession
      const both = Effect.forEach([1, 2], () =>
        Effect.flatMap(waits.listen(id), ({ closing }) =>
          Effect.forkChild(Effect.exit(closing(approvalId("a"), undefined)))
        )
      )
      const failing = yield* both
      yield* settle
      yield* end(new NotFound())
      for (const fiber of failing) assert.isTrue(Exit.isFailure(yield* Fiber.join(fiber)))
      const ending = yield* both
      yield* settle
      yield* end("closed")
      for (const fiber of ending) assert.deepStrictEqual(yield* Fiber.join(fiber), Exit.succeed(undefined))
      assert.strictEqual(opened.length, 2)
    }).pipe(Effect.scoped)
  )
})
