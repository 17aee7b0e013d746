import { Effect } from "effect"
import type { StepRequest } from "../../../api/AgentSessions.ts"
import type { GovernedStep, StepReviewer } from "../../../domain/approvals/AgentSession.ts"
import type { ApprovalTransitionEvent } from "../../../domain/approvals/ApprovalEvent.ts"
import type { Ruling } from "../../../domain/approvals/ApprovalRule.ts"
import {
  approvalTransitionedEvent,
  type NewSessionEvent,
  stepGovernedEvent
} from "../../../domain/approvals/SessionEvent.ts"
import { shadowColumns } from "../../../domain/approvals/ShadowDifference.ts"
import { stepDigestInSlices } from "../../../domain/approvals/StepDigest.ts"
import { ApprovalId, type SessionId, type TaskId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { nextTurn } from "../../admission/LoopTurns.ts"
import { type ApprovalRow, toApproval } from "../approvalRows.ts"
import { digestInTurns } from "../digestInTurns.ts"
import type { TakenGrant } from "../Grants/takeGrant.ts"
import type { OpenProposal } from "../proposalRows.ts"
import type { StepRuling } from "../Rules.ts"
import { argumentsText, newApproval } from "./newApproval.ts"
import type { StepRow } from "./rows.ts"

/** A step request whose task is known: its own or else its session's. */
export type StepOfTask = StepRequest & { readonly task_id: TaskId | null }

/** Everything that the first request of a step writes, and its answer. */
export interface NewStep {
  readonly answer: GovernedStep
  readonly row: StepRow
  /** The approval, if the step waits for one. */
  readonly approval: ApprovalRow | null
  readonly events: readonly [NewSessionEvent, ...ReadonlyArray<NewSessionEvent>]
  /** What webhook endpoints and mailboxes are notified of. Immediate decisions are session events only. */
  readonly requested: ApprovalTransitionEvent | null
}

/** The parts of a new step that take time to compute if its arguments are large. */
export interface StepTexts {
  readonly digest: string
  readonly argumentsJson: string | null
}

/** A tool and an action class. */
type Call = Pick<StepRequest, "tool" | "action_class">

/** The texts of one request, each computed in turns, and kept for the transaction that may have to follow. */
export interface RequestTexts {
  /** The write of the first request of the step. */
  readonly all: Effect.Effect<StepTexts>
  /** The digest of the request with this tool and action class: its own, or the saved step's if it repeats one. */
  readonly digestWith: (call: Call) => Effect.Effect<string>
}

/** Prepares the texts of a request. */
export const makeRequestTexts = (
  { org_id }: Principal,
  session_id: SessionId,
  step: StepRequest
): RequestTexts => {
  let digested: (Call & { readonly digest: string }) | undefined
  let texts: StepTexts | undefined

  const digestWith = Effect.fnUntraced(function* ({ action_class, tool }: Call) {
    if (digested?.tool === tool && digested.action_class === action_class) return digested.digest
    const content = {
      org_id,
      session_id,
      step_id: step.step_id,
      ...contentOf({ ...step, tool, action_class })
    }
    const digest = yield* digestInTurns(() => stepDigestInSlices(content))
    digested = { tool, action_class, digest }
    return digest
  })

  const compute = Effect.gen(function* () {
    const digest = yield* digestWith(step)
    yield* nextTurn
    return (texts = { digest, argumentsJson: argumentsText(step) })
  })

  return {
    all: Effect.suspend(() => (texts === undefined ? compute : Effect.succeed(texts))),
    digestWith
  }
}

/** What decides a step in place of the approval that its ruling requires. At most one of them. */
export interface AdvanceDecision {
  readonly proposal?: OpenProposal | undefined
  readonly grant?: TakenGrant | undefined
  readonly model?: ModelDecision | undefined
}

/** The decision of a reviewer model. */
export interface ModelDecision {
  readonly decision: "allow" | "reject"
  readonly reviewer: StepReviewer
}

/**
 * Decides a step by the ruling of the live rules, or by the counter-proposal, the grant or the reviewer model if that requires an approval. The
 * ruling of the shadow rules is recorded if it differs.
 */
export const newStep = Effect.fnUntraced(function* (
  principal: Principal,
  session_id: SessionId,
  step: StepOfTask,
  { argumentsJson, digest }: StepTexts,
  { ruling, shadow }: StepRuling,
  now: Timestamp,
  advance: AdvanceDecision = {}
) {
  const decided = decisionOf(ruling, advance)
  const approval =
    decided.decision === "pending"
      ? newApproval(
          principal,
          session_id,
          yield* ApprovalId.generateAt(now),
          step,
          argumentsJson,
          digest,
          ruling,
          now
        )
      : null
  const answer: GovernedStep = {
    step_id: step.step_id,
    ...decided,
    approval_id: approval?.approval_id ?? advance.proposal?.approval_id ?? null,
    rule_id: ruling.rule_id,
    expires_at: approval?.expires_at ?? null,
    decided_by: null,
    comment: null,
    changes_requested: false,
    arguments_digest: digest,
    proposal: null
  }
  const row: StepRow = {
    org_id: principal.org_id,
    session_id,
    step_id: step.step_id,
    task_id: step.task_id,
    tool: step.tool,
    action_class: step.action_class,
    arguments: argumentsJson,
    arguments_digest: digest,
    rule_id: ruling.rule_id,
    decision: answer.decision,
    reason: answer.reason,
    approval_id: approval?.approval_id ?? null,
    proposal_approval_id: advance.proposal?.approval_id ?? null,
    grant_id: answer.grant_id,
    reviewer: answer.reviewer ?? null,
    requested_by_id: principal.actor.id,
    requested_at: now,
    ...shadowColumns({ decision: answer.decision, effect: ruling.effect }, shadow)
  }
  const governed = stepGovernedEvent(answer, step)
  if (approval === null) {
    return { answer, row, approval, events: [governed], requested: null } satisfies NewStep
  }
  const requested = { event: "approval.requested" as const, approval: toApproval(approval) }
  return {
    answer,
    row,
    approval,
    events: [governed, approvalTransitionedEvent(requested)],
    requested
  } satisfies NewStep
})

/** The parts of a step that decisions are bound to, beside its ids. */
export const contentOf = (step: StepRequest) => ({
  tool: step.tool,
  action_class: step.action_class,
  ...(step.arguments === undefined ? {} : { arguments: step.arguments })
})

const decisionOf = (
  { effect, reason }: Ruling,
  { grant, model, proposal }: AdvanceDecision
): Pick<GovernedStep, "decision" | "decision_source" | "grant_id" | "reason" | "reviewer"> => {
  if (proposal !== undefined) {
    return {
      decision: "allow",
      decision_source: "counter_proposal",
      grant_id: null,
      reason: `A person proposed these arguments when rejecting step ${proposal.step_id}`
    }
  }
  if (grant !== undefined) {
    return {
      decision: "allow",
      decision_source: "grant",
      grant_id: grant.grant_id,
      reason: `Allowed by a standing grant${grant.reason === "" ? "" : `: ${grant.reason}`}`
    }
  }
  if (model !== undefined) {
    const { decision, reviewer } = model
    return {
      decision,
      decision_source: "model",
      grant_id: null,
      // The model's own words are in `reviewer`.
      reason: `${decision === "allow" ? "Approved" : "Rejected"} by a reviewer model, within the bounds of the rule`,
      reviewer
    }
  }
  return effect === "require_approval"
    ? { decision: "pending", decision_source: null, grant_id: null, reason }
    : { decision: effect, decision_source: "rule", grant_id: null, reason }
}
