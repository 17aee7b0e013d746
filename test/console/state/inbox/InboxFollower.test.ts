import { assert, describe, it } from "@effect/vitest"
import { DateTime, Deferred, Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { type Inbox, INBOX_PING_MS } from "../../../../src/api/Console.ts"
import { ApprovalSnapshot } from "../../../../src/api/SessionStream.ts"
import type { InboxLine } from "../../../../src/api/console/InboxApproval.ts"
import { KeyId } from "../../../../src/domain/Ids.ts"
import { makeInboxFollower, type InboxListener } from "../../../../src/console/state/inbox/InboxFollower.ts"
import { pendingApproval } from "../../../support/approvals.ts"

const at = "2026-11-21T02:33:05.123Z"

/** An approval; the greater its number, the later its deadline. */
const approval = (number: number, status: "pending" | "approved" = "pending"): ApprovalSnapshot =>
  Schema.decodeSync(Schema.toCodecJson(ApprovalSnapshot))({
    ...pendingApproval,
    approval_id: `apr_${String(number).padStart(32, "0")}`,
    session_id: `ses_${"a".repeat(32)}`,
    step_id: `step ${number}`,
    tool: "shell",
    status,
    requested_at: at,
    review_deadline_at: at,
    expires_at: DateTime.formatIso(DateTime.add(DateTime.makeUnsafe(at), { seconds: number })),
    outcome: status === "pending" ? null : "allow",
    decision_source: status === "pending" ? null : "human",
    decided_at: status === "pending" ? null : at
  })

const page = (numbers: ReadonlyArray<number>, more = false): Inbox => ({
  approvals: numbers.map((number) => approval(number)),
  more
})

/** A follower whose server is simulated: the test answers each page request and emits the stream's events. */
const simulatedInbox = Effect.gen(function* () {
  const requests: Array<Deferred.Deferred<Inbox, string>> = []
  const streams: Array<InboxListener & { closed: boolean }> = []
  const session = { isSignedIn: true }
  const follower = yield* makeInboxFollower({
    list: () =>
      Effect.suspend(() => {
        const answer = Deferred.makeUnsafe<Inbox, string>()
        requests.push(answer)
        return Deferred.await(answer)
      }),
    connect: (listener) => {
      const stream = { ...listener, closed: false }
      streams.push(stream)
      return () => void (stream.closed = true)
    },
    isStillSignedIn: Effect.sync(() => session.isSignedIn),
    onChange: () => {}
  })
  const settled = Effect.repeat(Effect.yieldNow, { times: 30 })
  return {
    ...follower,
    session,
    streams,
    /** The number of requested pages. */
    requestCount: () => requests.length,
    /** The newest stream. */
    stream: () => streams.at(-1)!,
    settled,
    answer: (index: number, inbox: Inbox) =>
      Effect.andThen(Deferred.succeed(requests[index]!, inbox), settled),
    fail: (index: number) => Effect.andThen(Deferred.fail(requests[index]!, "503"), settled),
    /** The phase and the numbers of the pending approvals. */
    shown: () => {
      const { pending, phase } = follower.state()
      return `${phase} ${pending.map(({ step_id }) => step_id.slice(5)).join(" ")}`.trim()
    }
  }
})

describe("InboxFollower", () => {
  it.effect("the first page is shown before the rest is read, and changes during the read are applied", () =>
    Effect.gen(function* () {
      const { answer, connect, settled, shown, stream } = yield* simulatedInbox
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

  it.effect("an older snapshot of an approval hides no vote, and never reopens a closed approval", () =>
    Effect.gen(function* () {
      const { answer, applyApproval, connect, settled, state, stream } = yield* simulatedInbox
      const shown = () => state().pending.map(({ approvals_given, comment }) => [approvals_given, comment])
      const snapshot = (approvals_given: number, comment: string | null) => ({
        ...approval(1),
        approvals_given,
        comment
      })
      connect()
      stream().opened()
      yield* settled
      // The page was read before the vote that the stream delivers meanwhile.
      stream().approval(snapshot(1, "one vote"))
      yield* answer(0, { approvals: [snapshot(0, "no vote")], more: false })
      assert.deepStrictEqual(shown(), [[1, "one vote"]])
      stream().approval(snapshot(0, "no vote"))
      assert.deepStrictEqual(shown(), [[1, "one vote"]])
      // With as many votes, the later one counts: an escalation changes other members.
      applyApproval(snapshot(1, "escalated"))
      assert.deepStrictEqual(shown(), [[1, "escalated"]])
      stream().approval(snapshot(2, "two votes"))
      assert.deepStrictEqual(shown(), [[2, "two votes"]])

      stream().approval(approval(1, "approved"))
      stream().approval(snapshot(3, "late"))
      assert.deepStrictEqual(shown(), [])
      // Also one that a page has, which was read before the end.
      stream().resync()
      yield* settled
      yield* answer(1, page([1, 2]))
      assert.deepStrictEqual(
        state().pending.map(({ step_id }) => step_id),
        ["step 2"]
      )
      assert.deepStrictEqual([...state().closed.keys()], [approval(1).approval_id])
    })
  )

  it.effect("the first vote count is shown, and a later snapshot keeps the line that only lists have", () =>
    Effect.gen(function* () {
      const { answer, connect, settled, state, stream } = yield* simulatedInbox
      const line = (agent_summary: string): InboxLine => ({
        rule_summary: null,
        agent_summary,
        arguments: null,
        requested_by: { id: KeyId.make(`key_${"a".repeat(32)}`), name: "agent" },
        self_approval: false,
        about: null,
        newest_question: 0,
        newest_answer: 0
      })
      connect()
      stream().opened()
      yield* settled
      yield* answer(0, { approvals: [{ ...approval(1), line: line("refund") }, approval(2)], more: false })
      stream().approval({ ...approval(1), approvals_given: 1 })
      stream().approval({ ...approval(2), line: line("mail") })
      stream().approval(approval(2))
      stream().approval({ ...approval(1), approvals_given: 1, line: line("another") })
      assert.deepStrictEqual(
        state().pending.map(({ approvals_given, line }) => [approvals_given, line?.agent_summary]),
        [
          [1, "another"],
          [0, "mail"]
        ]
      )
      stream().approval({ ...approval(1), approvals_given: 2 })
      assert.deepInclude(state().pending[0], { approvals_given: 2, line: line("another") })
    })
  )

  it.effect(
    "approvals with the same deadline are sorted by their IDs, and the oldest closed ones are dropped",
    () =>
      Effect.gen(function* () {
        const { answer, connect, settled, shown, state, stream } = yield* simulatedInbox
        connect()
        stream().opened()
        yield* settled
        const expires_at = approval(1).expires_at
        yield* answer(0, {
          approvals: [3, 1, 2].map((number) => ({ ...approval(number), expires_at })),
          more: false
        })
        assert.strictEqual(shown(), "live 1 2 3")
        for (let number = 1; number <= 500; number++) stream().approval(approval(number, "approved"))
        assert.strictEqual(state().closed.size, 500)
        // One that closed again, such as in the response to a decision, is the newest.
        stream().approval(approval(1, "approved"))
        stream().approval(approval(501, "approved"))
        assert.strictEqual(state().closed.size, 500)
        assert.isTrue(state().closed.has(approval(1).approval_id))
        assert.isFalse(state().closed.has(approval(2).approval_id))
      })
  )

  it.effect("repeated resync events cause one more read, after the running one", () =>
    Effect.gen(function* () {
      const { answer, requestCount, connect, settled, shown, stream } = yield* simulatedInbox
      connect()
      stream().opened()
      yield* settled
      stream().resync()
      stream().resync()
      yield* settled
      assert.strictEqual(requestCount(), 1)
      yield* answer(0, page([1]))
      assert.strictEqual(requestCount(), 2)
      // The approval arrives during the second read, whose result does not contain it.
      stream().approval(approval(7))
      yield* answer(1, page([1, 2]))
      assert.strictEqual(shown(), "live 1 2 7")
      assert.strictEqual(requestCount(), 2)
    })
  )

  it.effect(
    "a reconnect discards the running read, and approvals that closed in the meantime disappear",
    () =>
      Effect.gen(function* () {
        const { answer, connect, settled, shown, stream } = yield* simulatedInbox
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
    "failed reads are retried with increasing delays, and the inbox stays in the loading phase until one succeeds",
    () =>
      Effect.gen(function* () {
        const { answer, requestCount, connect, fail, settled, shown, stream } = yield* simulatedInbox
        connect()
        stream().opened()
        yield* settled
        for (const index of [0, 1, 2]) {
          yield* fail(index)
          assert.strictEqual(shown(), "loading")
          assert.strictEqual(requestCount(), index + 1)
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

  it.effect("a refused stream still shows pending approvals", () =>
    Effect.gen(function* () {
      const { answer, connect, settled, shown, stream } = yield* simulatedInbox
      connect()
      stream().broken(true)
      yield* settled
      yield* answer(0, page([1]))
      assert.strictEqual(shown(), "behind 1")
      stream().broken(true)
      yield* settled
      yield* answer(1, page([1, 2]))
      assert.strictEqual(shown(), "behind 1 2")
    })
  )

  it.effect("after a stream opens again, nothing is read for a session that has ended", () =>
    Effect.gen(function* () {
      const { answer, connect, requestCount, session, settled, stream } = yield* simulatedInbox
      connect()
      stream().opened()
      yield* settled
      yield* answer(0, page([1]))
      session.isSignedIn = false
      stream().broken(false)
      stream().opened()
      yield* settled
      assert.strictEqual(requestCount(), 1)
    })
  )

  it.effect("a read that gets no response is repeated", () =>
    Effect.gen(function* () {
      const { answer, connect, requestCount, settled, shown, stream } = yield* simulatedInbox
      connect()
      stream().opened()
      yield* settled
      yield* TestClock.adjust(3 * INBOX_PING_MS)
      yield* settled
      assert.strictEqual(requestCount(), 2)
      yield* answer(1, page([1]))
      assert.strictEqual(shown(), "live 1")
    })
  )

  it.effect(
    "a paused follower has no stream and sends no requests, and reads everything after it reconnects",
    () =>
      Effect.gen(function* () {
        const { answer, requestCount, connect, fail, pause, settled, shown, stream, streams } =
          yield* simulatedInbox
        connect()
        stream().opened()
        yield* settled
        yield* answer(0, page([1]))
        stream().resync()
        yield* settled
        yield* fail(1)
        pause()
        yield* TestClock.adjust("1 hour")
        assert.deepStrictEqual([stream().closed, requestCount(), shown()], [true, 2, "behind 1"])
        connect()
        stream().opened()
        yield* settled
        yield* answer(2, page([2]))
        assert.strictEqual(shown(), "live 2")
        assert.strictEqual(streams.length, 2)
      })
  )
})
