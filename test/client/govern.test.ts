import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Exit, Fiber, Schema } from "effect"
import { HttpClientRequest, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import type { StepRequest } from "../../src/api/AgentSessions.ts"
import { InternalError, RateLimited } from "../../src/api/Problems.ts"
import { type ApprovalSnapshot, SessionEvent } from "../../src/api/SessionStream.ts"
import type { CallError, EffectCalls, Operation } from "../../src/client/Call.ts"
import { changeOf, makeApprovalWaits } from "../../src/client/connect/approvalWaits.ts"
import { makeFollower } from "../../src/client/connect/sessionEvents.ts"
import { type GovernOptions, makeGovern } from "../../src/client/govern.ts"
import { proposedStepId } from "../../src/client/connect/govern.ts"
import type { OpenStream } from "../../src/client/stream.ts"
import type { GovernedStep } from "../../src/domain/approvals/AgentSession.ts"
import type { ApprovalMessage } from "../../src/domain/approvals/ApprovalMessage.ts"
import { ApprovalId, KeyId, SessionId, StepId } from "../../src/domain/Ids.ts"
import { yieldToPromises } from "./yieldToPromises.ts"
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
  decided_by: null,
  comment: null,
  expires_at: null,
  arguments_digest: "0".repeat(64),
  changes_requested: false,
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

const message: ApprovalMessage = {
  number: 1,
  sender: "reviewer",
  sent_by: { id: KeyId.make(`key_${"d".repeat(32)}`), name: "Ada" },
  sent_at: DateTime.makeUnsafe(at),
  text: "Why?"
}

const asked: SessionEvent = {
  id: 3,
  type: "approval:message",
  session_id: id,
  step_id: payload.step_id,
  occurred_at: DateTime.makeUnsafe(at),
  approval_id,
  message
}

/** `govern` over scripted answers to steps, and a session that sends its events and stays open. */
const session = (
  answers: ReadonlyArray<Effect.Effect<GovernedStep, CallError<Operation<"sessions", "step">>>>,
  events: ReadonlyArray<SessionEvent> = []
) => {
  let calls = 0
  const requested: Array<StepRequest> = []
  let streams = 0
  const follower = makeFollower<SessionEvent>()
  const waits = makeApprovalWaits(follower, changeOf<ApprovalSnapshot>)
  const encode = Schema.encodeSync(Schema.fromJsonString(SessionEvent))
  const text = events.map((event) => `event: ${event.type}\ndata: ${encode(event)}\n\n`).join("")
  const open: OpenStream = () =>
    Effect.sync(() => {
      streams++
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(new TextEncoder().encode(text || ":\n")),
        cancel: () => void streams--
      })
      const headers = { "content-type": "text/event-stream" }
      return HttpClientResponse.fromWeb(
        HttpClientRequest.get("http://service/stream"),
        new Response(body, { headers })
      )
    })
  const step = (request: { readonly payload: StepRequest }) =>
    Effect.suspend(() => {
      requested.push(request.payload)
      return answers[calls++] ?? Effect.die("asked too often")
    })
  const sent: Array<string> = []
  const sendMessage: EffectCalls["approvals"]["sendMessage"] = ({ payload: { text } }) =>
    Effect.sync(() => {
      sent.push(text)
      return { ...message, number: 2, sender: "agent" as const, text }
    })
  return {
    streams: () => streams,
    requested,
    sent,
    govern: (options?: GovernOptions) => makeGovern({ step, sendMessage }, waits, open)(id, payload, options)
  }
}

const pending = Effect.succeed(answer("pending"))

describe("govern of the Effect client", () => {
  it.effect("returns the decision with the approval of the stream, decoded", () =>
    Effect.gen(function* () {
      const { govern } = session([pending, Effect.succeed(answer("allow"))], [decided(3, "allow")])
      const { approval, decision } = yield* govern()
      assert.strictEqual(decision, "allow")
      assert.isTrue(DateTime.isDateTime(approval?.requested_at))
    })
  )

  it.effect("answers a reviewer's message by an effect of the caller, and waits on", () =>
    Effect.gen(function* () {
      const withMessage = Effect.succeed<GovernedStep>({ ...answer("pending"), messages: [message] })
      const { govern, sent } = session(
        [pending, withMessage, Effect.succeed(answer("allow"))],
        [asked, { ...decided(4, "allow") }]
      )
      const result = yield* govern({
        onMessage: ({ text }, { decision }) => Effect.succeed(`${decision}: ${text}`)
      })
      assert.strictEqual(result.decision, "allow")
      assert.deepStrictEqual(sent, ["pending: Why?"])
    })
  )

  it.effect("goes on with the arguments of a proposal if an effect of the caller accepts it", () =>
    Effect.gen(function* () {
      const proposing = Effect.succeed<GovernedStep>({
        ...answer("reject"),
        proposal: { arguments: { command: "ls" }, expires_at: DateTime.makeUnsafe(at), used_by: null }
      })
      const last = { ...answer("allow"), step_id: StepId.make("step 1~2") }
      const { govern, requested } = session([proposing, Effect.succeed(last)])
      const result = yield* govern({ acceptProposal: () => Effect.succeed(true) })
      assert.deepInclude(result, { decision: "allow", arguments: { command: "ls" } })
      assert.deepStrictEqual(requested[1], {
        ...payload,
        step_id: last.step_id,
        arguments: { command: "ls" }
      })
      assert.strictEqual(proposedStepId(`${"a".repeat(197)}\u{1f600}!`, 10), `${"a".repeat(197)}~10`)
    })
  )

  it.effect("waits on the clock of the program for its retries and its timeout", () =>
    Effect.gen(function* () {
      const busy = Effect.fail(new RateLimited({ retry_after_seconds: 3_600 }))
      const { govern } = session([busy, pending])
      const waiting = yield* Effect.forkChild(Effect.flip(govern({ timeout: "2 hours" })))
      yield* yieldToPromises
      yield* TestClock.adjust("1 hour")
      yield* yieldToPromises
      yield* TestClock.adjust("1 hour")
      assert.strictEqual((yield* Fiber.join(waiting))._tag, "DECISION_TIMEOUT")
    })
  )

  it.effect("fails with the problem of the step, and dies of its defects", () =>
    Effect.gen(function* () {
      const failing = session([Effect.fail(new InternalError({}))])
      assert.strictEqual((yield* Effect.flip(failing.govern()))._tag, "INTERNAL_ERROR")
      const exit = yield* Effect.exit(session([]).govern())
      assert.isTrue(Exit.hasDies(exit))
    })
  )

  it.effect("closes its stream when it is interrupted", () =>
    Effect.gen(function* () {
      const { govern, streams } = session([pending])
      const waiting = yield* Effect.forkChild(govern())
      yield* yieldToPromises
      assert.strictEqual(streams(), 1)
      yield* Fiber.interrupt(waiting)
      yield* yieldToPromises
      assert.strictEqual(streams(), 0)
    })
  )
})
