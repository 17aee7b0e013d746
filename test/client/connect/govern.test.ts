import { assert, describe, it } from "@effect/vitest"
import { afterEach, vi } from "vitest"
import { changeOf, makeApprovalWaits } from "../../../src/client/connect/approvalWaits.ts"
import { govern, proposedStep, type Reply, type WaitOptions } from "../../../src/client/connect/govern.ts"
import { ProblemError } from "../../../src/client/connect/Problem.ts"
import type { EventSource, SessionFollower } from "../../../src/client/connect/sessionEvents.ts"
import { systemClock } from "../../../src/client/connect/wait.ts"
import {
  type ApprovalMessage,
  type ApprovalSnapshot,
  type GovernedStep,
  isProblem,
  ServiceUnreachable,
  type SessionEvent,
  type StepRequest
} from "../../../src/client/index.ts"
import { after, realService } from "./fakeService.ts"
import { pendingApproval } from "../../support/approvals.ts"

const id = `ses_${"a".repeat(32)}`
const approval_id = `apr_${"b".repeat(32)}`
const at = new Date("2026-11-21T02:33:05.123Z")

const step: StepRequest = {
  step_id: "step 1",
  tool: "shell",
  action_class: "write",
  arguments: { command: "rm -r ." }
}

const answer = (decision: GovernedStep["decision"]): GovernedStep => ({
  step_id: "step 1",
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

const snapshot = (outcome: "allow" | "reject", approval: string): ApprovalSnapshot => ({
  ...pendingApproval,
  approval_id: approval,
  session_id: id,
  tool: "shell",
  status: outcome === "allow" ? "approved" : "rejected",
  requested_at: at,
  review_deadline_at: at,
  expires_at: at,
  outcome,
  decision_source: "human",
  decided_at: at
})

const decided = (number: number, outcome: "allow" | "reject", approval = approval_id): SessionEvent => ({
  id: number,
  type: "approval:decided",
  session_id: id,
  step_id: "step 1",
  occurred_at: at,
  approval: snapshot(outcome, approval)
})

const problem = (code: string, status: number, members: object = {}) =>
  new ProblemError(code, { title: "A title", status, ...members }, "sessions.step")
const unreachable = new ServiceUnreachable(
  { operation: "sessions.step", method: "POST", url: new URL("http://service/steps") },
  "ECONNREFUSED"
)

const source: EventSource<SessionEvent> = { clock: systemClock, open: async () => undefined }

/** Calls `govern` of the promise client on the fake clock, with other ways to submit steps and to follow the session. */
const start = async (
  submit: (payload: StepRequest, signal: AbortSignal, after_message?: number) => Promise<GovernedStep>,
  follower: SessionFollower<SessionEvent>,
  { acceptProposal, onMessage, ...options }: WaitOptions = {},
  send: (reply: Reply) => Promise<unknown> = async () => undefined
) => {
  vi.useFakeTimers()
  const waits = makeApprovalWaits(follower, changeOf<ApprovalSnapshot>)
  return govern<StepRequest["arguments"], StepRequest, GovernedStep, ApprovalSnapshot, ApprovalMessage>(
    {
      clock: systemClock,
      submit,
      listen: () => waits.listen(id, source),
      accept: async (rejected, step_id) => {
        const { proposal } = rejected
        if (proposal === null || (await acceptProposal?.(proposal, rejected)) !== true) return undefined
        return proposedStep(step, step_id, proposal.arguments)
      },
      reply: async (message, pending) => onMessage?.(message, pending),
      send
    },
    step,
    { ...options, signal: options.signal ?? new AbortController().signal }
  )
}

/** An in-memory session with scripted answers and events. Streams end with the events. */
const session = (script: {
  readonly answers: ReadonlyArray<GovernedStep | Error | (() => GovernedStep)>
  readonly events: Array<SessionEvent>
  readonly firstKept?: number
  seen?: number
}) => {
  const followed: Array<number | undefined> = []
  let calls = 0
  const follower: SessionFollower<SessionEvent> = {
    lastSeen: () => script.seen,
    async *stream(_, __, { after: cursor }) {
      followed.push(cursor)
      if (cursor !== undefined && cursor + 1 < (script.firstKept ?? 1)) {
        throw problem("CURSOR_EXPIRED", 410, { first_kept: script.firstKept })
      }
      yield* script.events.filter((event) => event.id > (cursor ?? 0))
    }
  }
  const requested: Array<StepRequest> = []
  const afterMessages: Array<number | undefined> = []
  const submit = async (
    payload: StepRequest,
    _: AbortSignal,
    after_message?: number
  ): Promise<GovernedStep> => {
    requested.push(payload)
    afterMessages.push(after_message)
    const next = script.answers[calls++]
    if (next === undefined) throw new Error("asked too often")
    if (next instanceof Error) throw next
    return typeof next === "function" ? next() : next
  }
  return {
    followed,
    afterMessages,
    asked: () => calls,
    requested,
    start: (options: WaitOptions = {}, send?: (reply: Reply) => Promise<unknown>) =>
      start(submit, follower, options, send)
  }
}

const message = (number: number, text: string): ApprovalMessage => ({
  number,
  sender: "reviewer",
  sent_by: { id: `key_${"d".repeat(32)}`, name: "Ada" },
  sent_at: at,
  text
})

const sentMessage = (id: number, sent: ApprovalMessage, approval = approval_id): SessionEvent => ({
  id,
  type: "approval:message",
  session_id: `ses_${"a".repeat(32)}`,
  step_id: "step 1",
  occurred_at: at,
  approval_id: approval,
  message: sent
})

describe("connect's govern › messages", () => {
  afterEach(() => void vi.useRealTimers())

  const asking = (...messages: ReadonlyArray<ApprovalMessage>): GovernedStep => ({
    ...answer("pending"),
    messages
  })

  it("answers each message of a reviewer once, and waits on for the decision", async () => {
    const first = message(1, "Why?")
    const second = message(3, "For whom?")
    const { afterMessages, asked, start } = session({
      answers: [asking(first), asking(second), answer("allow")],
      events: [
        sentMessage(4, first, `apr_${"c".repeat(32)}`),
        sentMessage(5, { ...first, sender: "agent" }),
        sentMessage(6, second),
        decided(7, "allow")
      ],
      seen: 3
    })
    const sent: Array<Reply> = []
    const heard: Array<string> = []
    const result = await start(
      {
        onMessage: async ({ text }, pending) => {
          heard.push(`${pending.decision} ${text}`)
          return text === "Why?" ? undefined : `${"x".repeat(3_999)}\u{1f600}`
        }
      },
      async (reply) => sent.push(reply)
    )
    assert.strictEqual(result.decision, "allow")
    assert.strictEqual(asked(), 3)
    // A message that got no answer is not asked for again, and one that came before an answer is not lost.
    assert.deepStrictEqual(afterMessages, [undefined, 1, 3])
    assert.deepStrictEqual(heard, ["pending Why?", "pending For whom?"])
    assert.strictEqual(sent.length, 1)
    assert.deepStrictEqual(sent[0]?.params, { id: approval_id })
    assert.strictEqual(sent[0]?.payload.text, `${"x".repeat(3_999)}…`)
    assert.isString(sent[0]?.headers["idempotency-key"])
  })

  it("goes on if an answer comes too late, repeats one that did not arrive, and sends no empty one", async () => {
    const codes = [problem("UNAVAILABLE", 503), problem("APPROVAL_ALREADY_DECIDED", 409)]
    const keys = new Set<string | undefined>()
    const late = session({
      answers: [asking(message(1, "Why?")), answer("reject")],
      events: [decided(7, "reject")]
    }).start({ onMessage: () => "Because" }, async ({ headers }) => {
      keys.add(headers["idempotency-key"])
      throw codes.shift() ?? new Error("sent too often")
    })
    const { value } = await after(1_000, late)
    assert.strictEqual(value?.decision, "reject")
    assert.strictEqual(keys.size, 1)
    const empty = session({
      answers: [asking(message(1, "Why?")), answer("reject")],
      events: [decided(7, "reject")]
    }).start({ onMessage: () => " " }, () => assert.fail("nothing is to be sent"))
    assert.strictEqual((await empty).decision, "reject")
  })

  it("rejects with the error of the caller", async () => {
    const { start } = session({ answers: [asking(message(1, "Why?"))], events: [] })
    const failure = new Error("for the model")
    const { error } = await after(
      0,
      start({
        onMessage: () => {
          throw failure
        }
      })
    )
    assert.strictEqual(error, failure)
  })
})

const proposing = (command: string): GovernedStep => ({
  ...answer("reject"),
  proposal: { arguments: { command }, expires_at: at, used_by: null }
})

describe("connect's govern › counter-proposals", () => {
  afterEach(() => void vi.useRealTimers())

  it("returns a rejected step with its proposal, unless the caller accepts it", async () => {
    for (const acceptProposal of [undefined, () => false, async () => false]) {
      const { asked, start } = session({ answers: [proposing("rm -r build")], events: [] })
      const result = await start(acceptProposal === undefined ? {} : { acceptProposal })
      assert.strictEqual(result.decision, "reject")
      assert.deepStrictEqual(result.proposal?.arguments, { command: "rm -r build" })
      assert.deepStrictEqual(result.arguments, step.arguments)
      assert.strictEqual(asked(), 1)
    }
  })

  it("requests other steps with the proposals that the caller accepts, one after the other", async () => {
    const { requested, start } = session({
      answers: [
        proposing("rm -r build"),
        proposing("rm -r dist"),
        { ...answer("allow"), step_id: "step 1~3" }
      ],
      events: []
    })
    const offered: Array<unknown> = []
    const result = await start({
      acceptProposal: async (proposal, rejected) => {
        offered.push([proposal.arguments, rejected.decision])
        return true
      }
    })
    assert.deepInclude(result, {
      decision: "allow",
      step_id: "step 1~3",
      arguments: { command: "rm -r dist" }
    })
    assert.deepStrictEqual(offered, [
      [{ command: "rm -r build" }, "reject"],
      [{ command: "rm -r dist" }, "reject"]
    ])
    assert.deepStrictEqual(requested, [
      step,
      { ...step, step_id: "step 1~2", arguments: { command: "rm -r build" } },
      { ...step, step_id: "step 1~3", arguments: { command: "rm -r dist" } }
    ])
  })

  it("does not accept proposals without end", async () => {
    const { asked, start } = session({
      answers: Array.from({ length: 20 }, (_, index) => proposing(`rm ${index}`)),
      events: []
    })
    assert.strictEqual((await start({ acceptProposal: () => true })).decision, "reject")
    assert.strictEqual(asked(), 11)
  })
})

describe("connect's govern", () => {
  afterEach(realService)

  it("does not miss a decision between its request and its stream", async () => {
    const events = [decided(4, "allow", `apr_${"c".repeat(32)}`)]
    const script: Parameters<typeof session>[0] = {
      events,
      seen: 4,
      answers: [
        () => {
          // Another stream of this client has received the decision before this one starts.
          events.push(decided(6, "allow"))
          script.seen = 6
          return answer("pending")
        },
        answer("allow")
      ]
    }
    const { followed, start } = session(script)
    const governed = await start()
    assert.strictEqual(governed.decision, "allow")
    assert.strictEqual(governed.approval?.approval_id, approval_id)
    assert.deepStrictEqual(followed, [4])
  })

  it("uses the service's response, not the event: a rule that now rejects wins", async () => {
    const { start } = session({
      answers: [answer("pending"), answer("reject")],
      events: [decided(3, "allow")]
    })
    assert.strictEqual((await start()).decision, "reject")
  })

  it("requests again, and streams from the oldest retained event, if its cursor has expired", async () => {
    const { followed, start } = session({
      answers: [answer("pending"), answer("pending"), answer("allow")],
      events: [decided(9, "allow")],
      firstKept: 8,
      seen: 2
    })
    assert.strictEqual((await start()).decision, "allow")
    assert.deepStrictEqual(followed, [2, undefined])
  })

  it("returns reject if closing the session closed the approval, and rejects otherwise", async () => {
    const answers = [answer("pending"), problem("SESSION_CLOSED", 409)]
    const rejected = await session({ answers, events: [decided(3, "reject")] }).start()
    assert.deepInclude(rejected, { decision: "reject", reason: "Session closed" })
    const { error } = await after(0, session({ answers, events: [decided(3, "allow")] }).start())
    assert.isTrue(isProblem(error, "SESSION_CLOSED"))
  })

  it("retries without limit, as late as the service asks, if it is unavailable after the decision", async () => {
    const away = Array.from({ length: 20 }, () => problem("UNAVAILABLE", 503))
    const busy = problem("RATE_LIMITED", 429, { retry_after_seconds: 3_600 })
    const { asked, start } = session({
      answers: [answer("pending"), ...away, unreachable, busy, answer("allow")],
      events: [decided(3, "allow")]
    })
    const waiting = start()
    await vi.advanceTimersByTimeAsync(1_200_000)
    assert.strictEqual(asked(), 23)
    const { value } = await after(3_600_000, waiting)
    assert.strictEqual(value?.decision, "allow")
  })

  it("fails soon if the service is unreachable, and immediately if the first request fails with 500", async () => {
    const down = session({ answers: [unreachable, unreachable, unreachable, unreachable], events: [] })
    const failed = await after(10_000, down.start())
    assert.strictEqual(failed.error, unreachable)
    assert.strictEqual(down.asked(), 4)
    const broken = session({ answers: [problem("INTERNAL_ERROR", 500)], events: [] })
    const { error, took } = await after(10_000, broken.start())
    assert.isTrue(isProblem(error, "INTERNAL_ERROR"))
    assert.strictEqual(took, 0)
  })

  it("rejects after its timeout, and when its signal aborts", async () => {
    const never: SessionFollower<SessionEvent> = {
      lastSeen: () => undefined,
      async *stream(_, __, ___, signal) {
        signal.throwIfAborted()
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))
      }
    }
    const submit = () => Promise.resolve(answer("pending"))
    const late = await after(600_000, start(submit, never, { timeout: "10 minutes" }))
    assert.isTrue(isProblem(late.error, "DECISION_TIMEOUT"))
    assert.strictEqual(late.took, 600_000)
    const stop = new AbortController()
    const stopped = start(submit, never, { signal: stop.signal })
    stop.abort("enough")
    assert.strictEqual((await after(0, stopped)).error, "enough")
  })
})
