/**
 * A session with its steps, their approvals and its event log: steps are decided by the rules or by people, of the
 * decisions on an approval the first wins, of the claims of a step the first wins, or as many approvals of different people as its quorum needs, arguments that were proposed with
 * a rejection allow one step that has them, a window that has ended is not decided any more, a closed session takes no step, and the log
 * has exactly the events of what happened, in order.
 *
 * The log is read at the end. Each change appends events in its transaction, so the state of the session is its log up
 * to some event: the model's state is the number of that event. A change is possible only where the next events are
 * the ones that it would append, and every event of the log must come from one of the operations.
 */
import { DateTime } from "effect"
import type { SessionEvent } from "../../../src/api/SessionStream.ts"
import type { ApprovalOutcome } from "../../../src/domain/approvals/Approval.ts"
import type { StepDecision } from "../../../src/domain/approvals/AgentSession.ts"
import { isAnswer, isRefusal, type Model } from "../Model.ts"
import type { Operation } from "../Operation.ts"

export type SessionCall =
  | {
      readonly kind: "step"
      readonly step: string
      /** What the rules say to the step. */
      readonly rule: "allow" | "reject" | "require_approval"
      /** Whether the arguments differ from those that the step is known to have. */
      readonly changed: boolean
    }
  | { readonly kind: "claim"; readonly step: string }
  | {
      readonly kind: "report the outcome"
      readonly step: string
      /** The claim that the report names; null if it names none. */
      readonly claim: string | null
    }
  | {
      readonly kind: "decide"
      readonly step: string
      readonly decision: "approve" | "reject"
      /** The step whose arguments a rejection proposes; null if it proposes none. */
      readonly proposes: string | null
      readonly key: string
      readonly isAdmin: boolean
      readonly isRequester: boolean
      /** Keys that made the deciding key, or that it made: they count as one person. */
      readonly relatives: ReadonlyArray<string>
      /** When the decision was sent, in milliseconds since the Unix epoch. */
      readonly sentAt: number
    }
  | { readonly kind: "get the approval"; readonly step: string }
  | { readonly kind: "list approvals" | "get the session" | "close" }
  /** Event number `number` was received on a stream. */
  | { readonly kind: "receive"; readonly number: number }
  /** The window of an approval was about to end, or ended; the log has event number `number` about it. */
  | { readonly kind: "time"; readonly number: number }
  /** All events of the log were read. */
  | { readonly kind: "read the log" }

/**
 * How far the clocks of the clients and of the service may be apart, in milliseconds. All run on one machine, so only
 * the service's measurement of the database's clock differs, by half a round trip.
 */
export const CLOCK_TOLERANCE_MILLIS = 250

interface ApprovalView {
  readonly id: string
  readonly status: "pending" | "approved" | "rejected" | "expired"
  readonly stage: "reviewer" | "admin"
  /** The deciding key. */
  readonly by: string | null
  readonly source: string | null
  readonly outcome: ApprovalOutcome | null
  readonly expiresAt: number
  readonly isWarned: boolean
  /** How many approvals it needs. */
  readonly required: number
  /** The keys that have approved, in order, if it needs several. */
  readonly voters: ReadonlyArray<string>
  /** The arguments that were proposed with the rejection. */
  readonly proposal: ProposalView | null
}

interface ProposalView {
  readonly expiresAt: number
  /** The step that it allowed. */
  readonly usedBy: string | null
}

interface StepView {
  readonly first: StepDecision
  /** The last decision that the agent got. */
  readonly last: StepDecision
  readonly isCompleted: boolean
  /** The claim of the step; null if nobody has claimed it. */
  readonly claim: string | null
  readonly approval: ApprovalView | null
  /** The approval whose rejection proposed the step's arguments, if that allowed it. */
  readonly proposedBy: string | null
}

/** A session after one of its events. */
interface SessionView {
  readonly isClosed: boolean
  readonly steps: ReadonlyMap<string, StepView>
}

/** The answer that tells an approval. */
export const approvalAnswer = (approval: {
  readonly status: string
  readonly stage: string
  readonly by: string | null
  readonly source: string | null
  readonly voters?: ReadonlyArray<string>
  readonly proposal?: Pick<ProposalView, "usedBy"> | null
}): string =>
  `${approval.status} in stage ${approval.stage} by ${approval.by ?? approval.source ?? "nobody"}${votesAnswer(approval.voters)}${proposalAnswer(approval.proposal)}`

const proposalAnswer = (proposal: Pick<ProposalView, "usedBy"> | null = null): string =>
  proposal === null ? "" : `, with a proposal that ${proposal.usedBy ?? "no step"} uses`

const votesAnswer = (voters: ReadonlyArray<string> = []): string =>
  voters.length === 0 ? "" : `, approved by ${voters.join(", ")}`

/** The answer of a list, from the answers about its approvals by step. */
export const listAnswer = (approvals: ReadonlyArray<readonly [step: string, answer: string]>): string =>
  approvals
    .map(([step, answer]) => `${step}: ${answer}`)
    .toSorted()
    .join("; ")

/** The answer to a step. */
export const stepAnswer = (decision: StepDecision, approval_id: string | null): string =>
  `${decision}, ${approval_id ?? "no approval"}`

/** The answer to a claim that was made. */
export const claimAnswer = (claim_id: string): string => `claimed as ${claim_id}`

/** The answer to a decision that was accepted. */
export const decisionAnswer = (status: string, by: string, voters: ReadonlyArray<string> = []): string =>
  `${status} by ${by}${votesAnswer(voters)}`

/** The keys whose approvals an answer shows; none of an approval that needs one, which is told by who decided. */
export const votersOf = ({
  approvals_required,
  votes
}: {
  readonly approvals_required?: number
  readonly votes?: ReadonlyArray<{ readonly voted_by: { readonly id: string } }>
}): ReadonlyArray<string> =>
  (approvals_required ?? 1) === 1 ? [] : (votes ?? []).map(({ voted_by }) => voted_by.id)

/** The views of a session before its first event and after each of them. */
const viewsOf = (log: ReadonlyArray<SessionEvent>): ReadonlyArray<SessionView> => {
  const views: Array<SessionView> = []
  let view: SessionView = { isClosed: false, steps: new Map() }
  views.push(view)
  for (const event of log) {
    view = after(view, event)
    views.push(view)
  }
  return views
}

const after = (view: SessionView, event: SessionEvent): SessionView => {
  if (event.type === "session:closed") return { ...view, isClosed: true }
  const step = view.steps.get(event.step_id)
  const withStep = (next: StepView): SessionView => ({
    ...view,
    steps: new Map([...view.steps, [event.step_id, next]])
  })
  switch (event.type) {
    case "step:governed": {
      if (step !== undefined) return withStep({ ...step, last: event.decision })
      const proposedBy = event.decision === "allow" ? event.approval_id : null
      const governed = withStep({
        first: event.decision,
        last: event.decision,
        isCompleted: false,
        claim: null,
        approval: null,
        proposedBy
      })
      return { ...governed, steps: new Map([...governed.steps].map(usedBy(event.step_id, proposedBy))) }
    }
    case "tool:claimed":
      return step === undefined ? view : withStep({ ...step, claim: event.claim_id })
    // No lease ends in a run, so that only the close of the session follows.
    case "tool:unknown":
    case "tool:retry_allowed":
    // A message changes no decision.
    case "approval:message":
      return view
    case "tool:outcome":
      return step === undefined ? view : withStep({ ...step, isCompleted: true })
    default: {
      if (step === undefined) return view
      const { approval } = event
      return withStep({
        ...step,
        approval: {
          id: approval.approval_id,
          status: approval.status,
          stage: approval.stage,
          by: approval.decided_by?.id ?? null,
          source: approval.decision_source,
          outcome: approval.outcome,
          expiresAt: approval.expires_at.epochMilliseconds,
          isWarned:
            event.type === "approval:expiring" ||
            (event.type === "approval:vote_recorded" && step.approval?.isWarned === true),
          required: approval.approvals_required ?? 1,
          voters: votersOf(approval),
          proposal: proposalOf(approval)
        }
      })
    }
  }
}

/** A step, after another step has used the proposal of an approval. */
const usedBy =
  (user: string, approval_id: string | null) =>
  ([step, view]: readonly [string, StepView]): readonly [string, StepView] => {
    const { approval } = view
    if (approval === null || approval.proposal === null || approval.id !== approval_id) return [step, view]
    return [step, { ...view, approval: { ...approval, proposal: { ...approval.proposal, usedBy: user } } }]
  }

/** The proposal that an approval shows. */
export const proposalOf = ({
  proposal
}: {
  readonly proposal?: {
    readonly expires_at: DateTime.Utc | Date
    readonly used_by: string | null
  } | null
}): ProposalView | null =>
  proposal === null || proposal === undefined
    ? null
    : { expiresAt: DateTime.makeUnsafe(proposal.expires_at).epochMilliseconds, usedBy: proposal.used_by }

/** Whether an event was recorded because a window was about to end, or ended. */
const isByTime = (event: SessionEvent | undefined): boolean =>
  event?.type === "approval:expiring" ||
  event?.type === "approval:escalated" ||
  (event?.type === "approval:decided" && event.approval.decision_source === "timeout")

/** When an event by time was due, in milliseconds since the Unix epoch. */
const dueAt = (event: SessionEvent, expiringSeconds: (step: string) => number | null): number | undefined => {
  if (!("approval" in event)) return undefined
  const { approval } = event
  switch (event.type) {
    case "approval:expiring": {
      const start = approval.stage === "reviewer" ? approval.requested_at : approval.review_deadline_at
      const quarter = Math.floor((approval.expires_at.epochMilliseconds - start.epochMilliseconds) / 4)
      const seconds = expiringSeconds(event.step_id)
      return approval.expires_at.epochMilliseconds - (seconds === null ? quarter : seconds * 1_000)
    }
    case "approval:escalated":
      return approval.review_deadline_at.epochMilliseconds
    default:
      return approval.expires_at.epochMilliseconds
  }
}

/** How late, in milliseconds, the log has the windows that ended or were about to. */
export const latenessOf = (
  log: ReadonlyArray<SessionEvent>,
  expiringSeconds: (step: string) => number | null
): ReadonlyArray<number> =>
  log.flatMap((event) => {
    const due = isByTime(event) ? dueAt(event, expiringSeconds) : undefined
    return due === undefined ? [] : [event.occurred_at.epochMilliseconds - due]
  })

/** The operations by which time moves a session's approvals: one for each of its events in the log. */
export const operationsByTime = (
  log: ReadonlyArray<SessionEvent>,
  expiringSeconds: (step: string) => number | null,
  toMonotonic: (epochMillis: number) => number
): ReadonlyArray<Operation<SessionCall>> =>
  log.flatMap((event) => {
    const due = isByTime(event) ? dueAt(event, expiringSeconds) : undefined
    if (due === undefined) return []
    return [
      {
        client: "time",
        call: { kind: "time", number: event.id },
        // Optional, because the transaction of another operation may have recorded it too.
        answer: undefined,
        invokedAt: toMonotonic(due) - CLOCK_TOLERANCE_MILLIS,
        answeredAt: Number.POSITIVE_INFINITY
      }
    ]
  })

/**
 * The model of a session with this log. `proposed` is the step whose arguments each approval's rejection proposed: events do not have
 * arguments. A proposal lasts longer than a run.
 */
export const sessionModel = (
  log: ReadonlyArray<SessionEvent>,
  proposed: ReadonlyMap<string, string> = new Map()
): Model<number, SessionCall> => {
  const views = viewsOf(log)
  const last = views.at(-1)
  const eventAfter = (position: number): SessionEvent | undefined => log[position]

  /** The position after events that satisfy these conditions, in order. */
  const append = (
    position: number,
    ...expected: ReadonlyArray<(event: SessionEvent) => boolean>
  ): number | undefined =>
    expected.every((holds, index) => {
      const event = eventAfter(position + index)
      return event !== undefined && holds(event)
    })
      ? position + expected.length
      : undefined

  /** The approval whose proposal allows a step that the rules let wait: of the unused proposals, the first to expire. */
  const proposalFor = (view: SessionView, step: string): ApprovalView | undefined =>
    [...view.steps.values()]
      .flatMap(({ approval }) => (approval === null ? [] : [approval]))
      // Who rejects for one of several people cannot allow a step alone. All steps with these arguments have the same rule.
      .filter(
        ({ id, proposal, required }) =>
          proposal !== null && proposal.usedBy === null && required === 1 && proposed.get(id) === step
      )
      .toSorted((a, b) => expiryOf(a) - expiryOf(b) || (a.id < b.id ? -1 : 1))[0]

  const governed =
    (step: string, decision: StepDecision, approval_id?: string) =>
    (event: SessionEvent): boolean =>
      event.type === "step:governed" &&
      event.step_id === step &&
      event.decision === decision &&
      (approval_id === undefined || event.approval_id === approval_id)

  const close = (position: number, view: SessionView): number | undefined => {
    const closed = log.at(-1)
    if (closed?.type !== "session:closed" || [...(last?.steps.values() ?? [])].some(isPending))
      return undefined
    const expired = new Set<string>()
    const unknown = new Set<string>()
    for (const event of log.slice(position, -1)) {
      if (event.type === "tool:unknown") {
        if (unknown.has(event.step_id) || !isExecuting(view.steps.get(event.step_id))) return undefined
        unknown.add(event.step_id)
        continue
      }
      const isOwn =
        event.type === "approval:decided" &&
        event.approval.decision_source === "session_closed" &&
        event.approval.outcome === "reject"
      const isTimely = isByTime(event) && DateTime.Equivalence(event.occurred_at, closed.occurred_at)
      if (!isOwn && !isTimely) return undefined
      if (isOwn && (expired.has(event.step_id) || !isPending(view.steps.get(event.step_id)))) return undefined
      if (isOwn) expired.add(event.step_id)
    }
    const executing = [...view.steps].filter(([, step]) => isExecuting(step))
    return executing.every(([step]) => unknown.has(step)) ? log.length : undefined
  }

  const byTime = (position: number, number: number): number | undefined => {
    const event = eventAfter(position)
    if (event === undefined || event.id !== number || event.type === "session:closed") return undefined
    const approval = views[position]?.steps.get(event.step_id)?.approval
    if (approval?.status !== "pending") return undefined
    if (event.type === "approval:expiring" && approval.isWarned) return undefined
    if (event.type === "approval:escalated" && approval.stage === "admin") return undefined
    return position + 1
  }

  return {
    initial: 0,
    key: String,
    isRead: ({ answer, call: { kind } }) =>
      isRefusal(answer) ||
      kind === "get the approval" ||
      kind === "list approvals" ||
      kind === "get the session" ||
      kind === "receive" ||
      kind === "read the log",
    describe,
    apply: (position, operation) => {
      const view = views[position]
      if (view === undefined) return undefined
      const { call } = operation
      const answers = (text: string, next: number | undefined = position) =>
        isAnswer(operation, text) ? next : undefined
      switch (call.kind) {
        case "step": {
          if (view.isClosed) return answers("SESSION_CLOSED")
          const step = view.steps.get(call.step)
          if (step === undefined) {
            if (call.rule !== "require_approval") {
              const next = append(position, governed(call.step, call.rule))
              return next === undefined ? undefined : answers(stepAnswer(call.rule, null), next)
            }
            const proposing = proposalFor(view, call.step)
            if (proposing !== undefined) {
              const next = append(position, governed(call.step, "allow", proposing.id))
              return next === undefined ? undefined : answers(stepAnswer("allow", proposing.id), next)
            }
            const next = append(
              position,
              governed(call.step, "pending"),
              (event) => event.type === "approval:requested" && event.step_id === call.step
            )
            const approval = next === undefined ? undefined : views[next]?.steps.get(call.step)?.approval
            return approval === null || approval === undefined
              ? undefined
              : answers(stepAnswer("pending", approval.id), next)
          }
          if (call.changed) return answers("STEP_MISMATCH")
          if (step.isCompleted) return answers("STEP_ALREADY_COMPLETED")
          const decision = currentDecision(step)
          if (decision === "allow" && step.claim !== null) return answers("STEP_ALREADY_CLAIMED")
          const answer = stepAnswer(decision, step.approval?.id ?? step.proposedBy)
          if (decision === step.last) return answers(answer)
          const next = append(position, governed(call.step, decision))
          return next === undefined ? undefined : answers(answer, next)
        }
        case "claim": {
          const step = view.steps.get(call.step)
          if (step === undefined) return answers("NOT_FOUND")
          if (view.isClosed) return answers("SESSION_CLOSED")
          const decision = currentDecision(step)
          if (decision !== "allow") return answers("STEP_NOT_ALLOWED")
          if (step.isCompleted || step.claim !== null) return answers("STEP_ALREADY_CLAIMED")
          const claims = (event: SessionEvent) =>
            event.type === "tool:claimed" && event.step_id === call.step && event.attempt === 1
          const next =
            decision === step.last
              ? append(position, claims)
              : append(position, governed(call.step, decision), claims)
          const claim = next === undefined ? undefined : views[next]?.steps.get(call.step)?.claim
          return claim === undefined || claim === null ? undefined : answers(claimAnswer(claim), next)
        }
        case "report the outcome": {
          const step = view.steps.get(call.step)
          if (step === undefined) return answers("NOT_FOUND")
          if (view.isClosed) return answers("SESSION_CLOSED")
          if (step.isCompleted) return answers("STEP_ALREADY_COMPLETED")
          if (step.claim !== call.claim) return answers("CLAIM_MISMATCH")
          if (step.last === "reject" || (step.last === "pending" && currentDecision(step) !== "allow"))
            return answers("STEP_NOT_ALLOWED")
          const next = append(
            position,
            (event) => event.type === "tool:outcome" && event.step_id === call.step
          )
          return next === undefined ? undefined : answers("recorded", next)
        }
        case "decide": {
          const approval = view.steps.get(call.step)?.approval
          if (approval === null || approval === undefined) return answers("NOT_FOUND")
          const verdict = call.decision === "approve" ? "approved" : "rejected"
          if (approval.status === "expired") return answers(`APPROVAL_EXPIRED: ${approval.source}`)
          const approves = call.decision === "approve"
          const hasApproved = approves && approval.voters.includes(call.key)
          if (approval.status !== "pending") {
            const decided = decisionAnswer(approval.status, approval.by ?? "nobody", approval.voters)
            const isSameProposal = call.proposes === null || call.proposes === proposed.get(approval.id)
            return answers(
              approval.status === verdict && isSameProposal && (approval.by === call.key || hasApproved)
                ? decided
                : `APPROVAL_ALREADY_DECIDED: ${decided}`
            )
          }
          if (hasApproved) return answers(decisionAnswer("pending", "nobody", approval.voters))
          if (call.isRequester) return answers("SELF_APPROVAL")
          if (approval.stage === "admin" && !call.isAdmin) return answers("ADMIN_REQUIRED")
          if (approves && approval.voters.some((voter) => call.relatives.includes(voter)))
            return answers("SAME_PERSON")
          // Decided after the end of the window: it must have been sent before.
          if (call.sentAt >= approval.expiresAt + CLOCK_TOLERANCE_MILLIS) return undefined
          const voters = approves && approval.required > 1 ? [...approval.voters, call.key] : approval.voters
          const showsVotes = (event: SessionEvent) =>
            "approval" in event && votersOf(event.approval).join() === voters.join()
          if (approves && voters.length < approval.required && approval.required > 1) {
            const next = append(
              position,
              (event) =>
                event.type === "approval:vote_recorded" && event.step_id === call.step && showsVotes(event)
            )
            return next === undefined ? undefined : answers(decisionAnswer("pending", "nobody", voters), next)
          }
          const next = append(
            position,
            (event) =>
              event.type === "approval:decided" &&
              event.step_id === call.step &&
              event.approval.status === verdict &&
              event.approval.decided_by?.id === call.key &&
              isNullish(event.approval.proposal) === (call.proposes === null) &&
              (call.proposes === null || proposed.get(approval.id) === call.proposes) &&
              showsVotes(event)
          )
          return next === undefined ? undefined : answers(decisionAnswer(verdict, call.key, voters), next)
        }
        case "get the approval": {
          const approval = view.steps.get(call.step)?.approval
          return approval === null || approval === undefined
            ? answers("NOT_FOUND")
            : answers(approvalAnswer(approval))
        }
        case "list approvals":
          return answers(
            listAnswer(
              [...view.steps].flatMap(([step, { approval }]) =>
                approval === null ? [] : [[step, approvalAnswer(approval)] as const]
              )
            )
          )
        case "get the session":
          return answers(view.isClosed ? "closed" : "open")
        case "close": {
          if (view.isClosed) return answers("closed")
          const next = close(position, view)
          return next === undefined ? undefined : answers("closed", next)
        }
        case "receive":
          return position >= call.number ? answers("received") : undefined
        case "time":
          return byTime(position, call.number)
        case "read the log":
          return position === log.length ? answers("read") : undefined
      }
    }
  }
}

const isNullish = (value: unknown): boolean => value === null || value === undefined

const expiryOf = ({ proposal }: ApprovalView): number => proposal?.expiresAt ?? 0

const isPending = (step: StepView | undefined): boolean => step?.approval?.status === "pending"

const isExecuting = (step: StepView | undefined): boolean =>
  step !== undefined && step.claim !== null && !step.isCompleted

const currentDecision = ({ approval, first }: StepView): StepDecision =>
  approval === null ? first : (approval.outcome ?? "pending")

const describe = (call: SessionCall): string => {
  switch (call.kind) {
    case "step":
      return `step ${call.step}${call.changed ? " with other arguments" : ""}`
    case "claim":
      return `claim ${call.step}`
    case "report the outcome":
      return `report the outcome of ${call.step}${call.claim === null ? "" : ` under ${call.claim}`}`
    case "decide":
      return `${call.decision} ${call.step}${call.proposes === null ? "" : ` and propose ${call.proposes}`} as ${call.key}${call.isAdmin ? " (admin)" : ""}`
    case "get the approval":
      return `get the approval of ${call.step}`
    case "receive":
      return `receive event ${call.number}`
    case "time":
      return `a window ends: event ${call.number}`
    default:
      return call.kind
  }
}
