import { assert, describe, it } from "@effect/vitest"
import { DateTime, Deferred, Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import type { Inbox } from "../../../../src/api/Console.ts"
import { ApprovalSnapshot } from "../../../../src/api/SessionStream.ts"
import { makeInboxFollower, type InboxListener } from "../../../../src/console/state/inbox/InboxFollower.ts"

const at = "2026-11-21T02:33:05.123Z"

/** An approval that closes the later the greater its number. */
const approval = (number: number, status: "pending" | "approved" = "pending"): ApprovalSnapshot =>
  Schema.decodeSync(Schema.toCodecJson(ApprovalSnapshot))({
    approval_id: `apr_${String(number).padStart(32, "0")}`,
    session_id: `ses_${"a".repeat(32)}`,
    step_id: `step ${number}`,
    task_id: null,
    tool: "shell",
    action_class: "write",
    arguments_digest: "0".repeat(64),
    status,
    stage: "reviewer",
    requested_at: at,
    review_deadline_at: at,
    escalation_deadline_at: null,
    expires_at: DateTime.formatIso(DateTime.add(DateTime.makeUnsafe(at), { seconds: number })),
    escalated_at: null,
    timeout_action: "reject",
    outcome: status === "pending" ? null : "allow",
    decision_source: status === "pending" ? null : "human",
    decided_at: status === "pending" ? null : at,
    decided_by: null,
    comment: null
  })

const page = (numbers: ReadonlyArray<number>, more = false): Inbox => ({
  approvals: numbers.map((number) => approval(number)),
  more
})

/** An inbox whose service is the test: it answers readings one after the other, and speaks by the stream. */
const inbox = Effect.gen(function* () {
  const asked: Array<Deferred.Deferred<Inbox, string>> = []
  const streams: Array<InboxListener & { closed: boolean }> = []
  const here = { value: true }
  const following = yield* makeInboxFollower({
    list: () =>
      Effect.suspend(() => {
        const answer = Deferred.makeUnsafe<Inbox, string>()
        asked.push(answer)
        return Deferred.await(answer)
      }),
    connect: (hear) => {
      const stream = { ...hear, closed: false }
      streams.push(stream)
      return () => void (stream.closed = true)
    },
    isStillSignedIn: Effect.sync(() => here.value),
    onChange: () => {}
  })
  const settled = Effect.repeat(Effect.yieldNow, { times: 30 })
  return {
    ...following,
    here,
    streams,
    /** How often a page was asked for. */
    asked: () => asked.length,
    /** The stream that is open. */
    stream: () => streams.at(-1)!,
    settled,
    answer: (index: number, inbox: Inbox) => Effect.andThen(Deferred.succeed(asked[index]!, inbox), settled),
    fail: (index: number) => Effect.andThen(Deferred.fail(asked[index]!, "503"), settled),
    /** What is shown: the phase, and the numbers of the steps that wait. */
    shown: () => {
      const { pending, phase } = following.state()
      return `${phase} ${pending.map(({ step_id }) => step_id.slice(5)).join(" ")}`.trim()
    }
  }
})

describe("the inbox", () => {
  it.effect("shows the first page at once, then the rest, with what came meanwhile", () =>
    Effect.gen(function* () {
      const { answer, connect, settled, shown, stream } = yield* inbox
      connect()
      assert.strictEqual(shown(), "loading")
      stream().opened()
      yield* settled
      stream().approval(approval(3))
      yield* answer(0, page([1, 2], true))
      assert.strictEqual(shown(), "live 1 2 3")
      stream().approval(approval(2, "approved"))
      yield* answer(1, page([2, 5]))
      assert.strictEqual(shown(), "live 1 3 5")
    })
  )

  it.effect("reads one after the other, however often it is told that it may have missed something", () =>
    Effect.gen(function* () {
      const { answer, asked, connect, settled, shown, stream } = yield* inbox
      connect()
      stream().opened()
      yield* settled
      stream().resync()
      stream().resync()
      yield* settled
      assert.strictEqual(asked(), 1)
      yield* answer(0, page([1]))
      assert.strictEqual(asked(), 2)
      // It comes while the second reading is under way, which does not have it.
      stream().approval(approval(7))
      yield* answer(1, page([1, 2]))
      assert.strictEqual(shown(), "live 1 2 7")
      assert.strictEqual(asked(), 2)
    })
  )

  it.effect("keeps nothing of a reading that the stream broke off, and no ghost of what closed unheard", () =>
    Effect.gen(function* () {
      const { answer, connect, settled, shown, stream } = yield* inbox
      connect()
      stream().opened()
      yield* settled
      yield* answer(0, page([1, 2]))
      stream().resync()
      yield* settled
      stream().broken(false)
      assert.strictEqual(shown(), "behind 1 2")
      stream().opened()
      yield* settled
      yield* answer(1, page([1, 2]))
      stream().approval(approval(4))
      yield* answer(2, page([2]))
      assert.strictEqual(shown(), "live 2 4")
    })
  )

  it.effect(
    "tries a reading that failed again, later each time, and does not say before that nothing waits",
    () =>
      Effect.gen(function* () {
        const { answer, asked, connect, fail, settled, shown, stream } = yield* inbox
        connect()
        stream().opened()
        yield* settled
        for (const index of [0, 1, 2]) {
          yield* fail(index)
          assert.strictEqual(shown(), "loading")
          assert.strictEqual(asked(), index + 1)
          yield* TestClock.adjust(2 ** index * 1_200)
        }
        yield* answer(3, page([1]))
        assert.strictEqual(shown(), "live 1")
        stream().resync()
        yield* settled
        yield* fail(4)
        assert.strictEqual(shown(), "behind 1")
        yield* TestClock.adjust("2 seconds")
        yield* answer(5, page([2]))
        assert.strictEqual(shown(), "live 2")
      })
  )

  it.effect("shows what waits though the stream is refused, and connects again while somebody is here", () =>
    Effect.gen(function* () {
      const { answer, asked, connect, here, settled, shown, stream, streams } = yield* inbox
      connect()
      stream().broken(true)
      yield* settled
      yield* answer(0, page([1]))
      assert.strictEqual(shown(), "behind 1")
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual(streams.length, 2)
      stream().broken(true)
      yield* settled
      yield* answer(1, page([1, 2]))
      assert.strictEqual(shown(), "behind 1 2")
      here.value = false
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual([streams.length, asked()], [2, 2])
    })
  )

  it.effect("asks and hears nothing while nobody sees it, and reads everything after", () =>
    Effect.gen(function* () {
      const { answer, asked, connect, fail, pause, settled, shown, stream, streams } = yield* inbox
      connect()
      stream().opened()
      yield* settled
      yield* answer(0, page([1]))
      stream().resync()
      yield* settled
      yield* fail(1)
      pause()
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual([stream().closed, asked(), shown()], [true, 2, "behind 1"])
      connect()
      stream().opened()
      yield* settled
      yield* answer(2, page([2]))
      assert.strictEqual(shown(), "live 2")
      assert.strictEqual(streams.length, 2)
    })
  )
})
