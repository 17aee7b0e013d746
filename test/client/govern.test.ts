import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Fiber, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import type { StepRequest } from "../../src/api/AgentSessions.ts"
import { SessionEvent } from "../../src/api/SessionStream.ts"
import {
  CursorExpired,
  InternalError,
  RateLimited,
  SessionClosed,
  Unavailable
} from "../../src/api/Problems.ts"
import { makeApprovalWaits } from "../../src/client/approvalWaits.ts"
import type { CallError, Operation } from "../../src/client/Call.ts"
import { type GovernOptions, makeGovern } from "../../src/client/govern.ts"
import { proposedStepId } from "../../src/client/proposedStepId.ts"
import { ServiceUnreachable } from "../../src/client/ServiceUnreachable.ts"
import type { SessionFollower } from "../../src/client/stream.ts"
import type { GovernedStep } from "../../src/domain/approvals/AgentSession.ts"
import { ApprovalId, SessionId, StepId } from "../../src/domain/Ids.ts"
import { pendingApproval } from "../support/approvals.ts"

const id = SessionId.make(`ses_${"a".repeat(32)}`)
const approval_id = ApprovalId.make(`apr_${"b".repeat(32)}`)
const payload = { step_id: StepId.make("step 1"), tool: "shell", action_class: "write" }
const at = "2026-11-21T02:33:05.123Z"

const answer = (decision: GovernedStep["decision"]): GovernedStep => ({
  step_id: payload.step_id,
  decision,
  approval_id,
  reason: "A person is asked",
  rule_id: null,
  decision_source: decision === "pending" ? null : "human",
  grant_id: null,
  expires_at: null,
  arguments_digest: "0".repeat(64),
  proposal: null
})

const decided = (number: number, outcome: "allow" | "reject", approval = approval_id): SessionEvent =>
  Schema.decodeSync(Schema.toCodecJson(SessionEvent))({
    id: number,
    type: "approval:decided",
    session_id: id,
    step_id: payload.step_id,
    occurred_at: at,
    approval: {
      ...pendingApproval,
      approval_id: approval,
      session_id: id,
      step_id: payload.step_id,
      tool: "shell",
      status: outcome === "allow" ? "approved" : "rejected",
      requested_at: at,
      review_deadline_at: at,
      expires_at: at,
      outcome,
      decision_source: "human",
      decided_at: at
    }
  })

const noResponse = Effect.fail(
  new ServiceUnreachable(
    { operation: "sessions.step", method: "POST", url: new URL("http://service/steps") },
    "ECONNREFUSED"
  )
)

/** An in-memory session with scripted responses and events. Streams end with the events. */
const session = (options: {
  readonly answers: ReadonlyArray<Effect.Effect<GovernedStep, CallError<Operation<"sessions", "step">>>>
  readonly events: Array<SessionEvent>
  readonly firstKept?: number
  seen?: number
}) => {
  const followed: Array<number | undefined> = []
  let calls = 0
  const follower: SessionFollower = {
    lastSeen: () => options.seen,
    stream: (_, { after } = {}) =>
      Stream.suspend(() => {
        followed.push(after)
        return after !== undefined && after + 1 < (options.firstKept ?? 1)
          ? Stream.fail(new CursorExpired({ first_kept: options.firstKept ?? 1 }))
          : Stream.fromArray(options.events.filter((event) => event.id > (after ?? 0)))
      })
  }
  const requested: Array<StepRequest> = []
  const step = (request: { readonly payload: StepRequest }) =>
    Effect.suspend(() => {
      requested.push(request.payload)
      return options.answers[calls++] ?? Effect.die("asked too often")
    })
  const start = (governOptions?: GovernOptions) =>
    makeGovern(step, makeApprovalWaits(follower))(id, payload, governOptions)
  return { followed, asked: () => calls, govern: start(), requested, start }
}

const proposing = (command: string) =>
  Effect.succeed<GovernedStep>({
    ...answer("reject"),
    proposal: { arguments: { command }, expires_at: DateTime.makeUnsafe(at), used_by: null }
  })

describe("govern › counter-proposals", () => {
  it.effect("returns a rejected step with its proposal, unless the caller accepts it", () =>
    Effect.gen(function* () {
      for (const options of [{}, { acceptProposal: () => false }]) {
        const { asked, start } = session({ answers: [proposing("rm -r build")], events: [] })
        const result = yield* start(options)
        assert.strictEqual(result.decision, "reject")
        assert.deepStrictEqual(result.proposal?.arguments, { command: "rm -r build" })
        assert.isFalse("arguments" in result, "the step has none")
        assert.strictEqual(asked(), 1)
      }
    })
  )

  it.effect("requests other steps with the proposals that the caller accepts, one after the other", () =>
    Effect.gen(function* () {
      const last = { ...answer("allow"), step_id: StepId.make("step 1~3") }
      const { requested, start } = session({
        answers: [proposing("rm -r build"), proposing("rm -r dist"), Effect.succeed(last)],
        events: []
      })
      const result = yield* start({ acceptProposal: () => Effect.succeed(true) })
      assert.deepInclude(result, {
        decision: "allow",
        step_id: last.step_id,
        arguments: { command: "rm -r dist" }
      })
      assert.deepStrictEqual(requested, [
        payload,
        { ...payload, step_id: StepId.make("step 1~2"), arguments: { command: "rm -r build" } },
        { ...payload, step_id: StepId.make("step 1~3"), arguments: { command: "rm -r dist" } }
      ])
    })
  )

  it.effect("does not accept proposals without end, and keeps the ids of steps short enough", () =>
    Effect.gen(function* () {
      const answers = Array.from({ length: 20 }, (_, index) => proposing(`rm ${index}`))
      const { asked, start } = session({ answers, events: [] })
      assert.strictEqual((yield* start({ acceptProposal: () => true })).decision, "reject")
      assert.strictEqual(asked(), 11)
      assert.strictEqual(proposedStepId("refund", 2), "refund~2")
      assert.strictEqual(proposedStepId("a".repeat(200), 2), `${"a".repeat(198)}~2`)
      assert.strictEqual(proposedStepId(`${"a".repeat(197)}\u{1f600}!`, 10), `${"a".repeat(197)}~10`)
    })
  )
})

describe("govern", () => {
  it.effect("does not miss a decision between its request and its stream", () =>
    Effect.gen(function* () {
      const events = [decided(4, "allow", ApprovalId.make(`apr_${"c".repeat(32)}`))]
      const options = { events, seen: 4, answers: [] as Array<Effect.Effect<GovernedStep>> }
      options.answers.push(
        Effect.sync(() => {
          // Another stream of this client has received the decision before this one starts.
          events.push(decided(6, "allow"))
          options.seen = 6
          return answer("pending")
        }),
        Effect.succeed(answer("allow"))
      )
      const { followed, govern } = session(options)
      const governed = yield* govern
      assert.strictEqual(governed.decision, "allow")
      assert.strictEqual(governed.approval?.approval_id, approval_id)
      assert.deepStrictEqual(followed, [4])
    })
  )

  it.effect("uses the service's response, not the event: a rule that now rejects wins", () =>
    Effect.gen(function* () {
      const { govern } = session({
        answers: [Effect.succeed(answer("pending")), Effect.succeed(answer("reject"))],
        events: [decided(3, "allow")]
      })
      assert.strictEqual((yield* govern).decision, "reject")
    })
  )

  it.effect("requests again, and streams from the oldest retained event, if its cursor has expired", () =>
    Effect.gen(function* () {
      const { followed, govern } = session({
        answers: [
          Effect.succeed(answer("pending")),
          Effect.succeed(answer("pending")),
          Effect.succeed(answer("allow"))
        ],
        events: [decided(9, "allow")],
        firstKept: 8,
        seen: 2
      })
      assert.strictEqual((yield* govern).decision, "allow")
      assert.deepStrictEqual(followed, [2, undefined])
    })
  )

  it.effect("returns reject if closing the session closed the approval, and fails otherwise", () =>
    Effect.gen(function* () {
      const ended = Effect.fail(new SessionClosed({}))
      const answers = [Effect.succeed(answer("pending")), ended]
      const rejected = yield* session({ answers, events: [decided(3, "reject")] }).govern
      assert.strictEqual(rejected.decision, "reject")
      const allowed = session({ answers, events: [decided(3, "allow")] }).govern
      assert.strictEqual((yield* Effect.flip(allowed))._tag, "SESSION_CLOSED")
    })
  )

  it.effect(
    "retries without limit, as late as the service asks, if the service is unavailable after the decision",
    () =>
      Effect.gen(function* () {
        const away = Array.from({ length: 20 }, () => Effect.fail(new Unavailable({})))
        const busy = Effect.fail(new RateLimited({ retry_after_seconds: 3_600 }))
        const { asked, govern } = session({
          answers: [
            Effect.succeed(answer("pending")),
            ...away,
            noResponse,
            busy,
            Effect.succeed(answer("allow"))
          ],
          events: [decided(3, "allow")]
        })
        const waiting = yield* Effect.forkChild(govern)
        yield* TestClock.adjust("20 minutes")
        assert.strictEqual(asked(), 23)
        yield* TestClock.adjust("1 hour")
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
      })
  )

  it.effect(
    "fails soon if the service is unreachable, and immediately if the first request fails with 500",
    () =>
      Effect.gen(function* () {
        const down = session({ answers: [noResponse, noResponse, noResponse, noResponse], events: [] })
        const failing = yield* Effect.forkChild(Effect.flip(down.govern))
        yield* TestClock.adjust("10 seconds")
        assert.strictEqual((yield* Fiber.join(failing))._tag, "SERVICE_UNREACHABLE")
        const broken = session({
          answers: [Effect.succeed(answer("pending")), Effect.fail(new InternalError({}))],
          events: [decided(3, "allow")]
        })
        assert.strictEqual((yield* Effect.flip(broken.govern))._tag, "INTERNAL_ERROR")
      })
  )
})
