import type { Effect } from "effect"
import type { StepDecision, StepOutcome } from "../../../domain/approvals/AgentSession.ts"
import type { ExecutionRecord } from "../../../domain/approvals/Execution.ts"
import type { ApprovalTransitionEvent } from "../../../domain/approvals/ApprovalEvent.ts"
import type { NewSessionEvent } from "../../../domain/approvals/SessionEvent.ts"
import type {
  ApprovalId,
  DatasetId,
  OrgId,
  ReviewerAnswerId,
  SessionId,
  StepId,
  TaskId,
  TraceId
} from "../../../domain/Ids.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { NewAuditRow } from "../../identity/auditWrites.ts"
import type { PreparedEvent } from "../../notifications/PreparedEvent.ts"
import type { ApprovalRow } from "../approvalRows.ts"
import type { CountedSpend } from "../BudgetCounters/composeSpends.ts"
import type { ExecutionChange } from "../executionRows.ts"
import type { StepRow } from "../Steps/rows.ts"

/** The answer of a reviewer model that decides a new step. Its release and its reason are in the step's row. */
export interface StepReview {
  readonly answer_id: ReviewerAnswerId
  readonly task_id: TaskId
  /** The dataset version whose examples the model saw; null: none. */
  readonly dataset_id: DatasetId | null
  /** The generation of the reviewer that was asked: after a stop it has another one. */
  readonly generation: number
  /** The band of the step's amount. */
  readonly band: number
  readonly calls: number
  readonly tokens: number
  readonly audit: NewAuditRow
}

/** The change of one request. It is written only if its premises, which the request has read before, still hold. */
export type SessionChange =
  /** A new step, with its approval if it waits. Written unless the session has the step, or it waits and the session may have a grant. */
  | {
      readonly _tag: "Step"
      readonly step: StepRow
      readonly approval: ApprovalRow | null
      /** The claim that is made with it; null: none. */
      readonly claim: ExecutionRecord | null
      /** Its use of budgets. It is written only if it still fits all of them. */
      readonly spends: ReadonlyArray<CountedSpend>
      /** The reviewer model's answer that decides it; null: none. It is written only if the reviewer may still decide. */
      readonly review: StepReview | null
      /** The revision of the shadow rules that the step was compared with. */
      readonly shadow_revision: number
    }
  /** Another decision of a saved step. Written if `from` was its last decision, and its approval, if any, is closed. */
  | {
      readonly _tag: "Decision"
      readonly step_id: StepId
      readonly from: StepDecision
      readonly to: StepDecision
    }
  /** Another state of a step's execution. Written if `from` is its execution, and its last decision, and it has no outcome. */
  | {
      readonly _tag: "Execution"
      readonly step_id: StepId
      readonly from: { readonly decision: StepDecision; readonly execution: ExecutionRecord | null }
      readonly to: { readonly decision: StepDecision; readonly execution: ExecutionRecord }
    }
  /** The outcome of a step. Written if `last_decision` was its last decision, it has no outcome, and the execution `from`. */
  | {
      readonly _tag: "Outcome"
      readonly outcome: StepOutcome
      readonly last_decision: StepDecision
      readonly execution: ExecutionChange
    }
  /** Transitions of an approval. Written if the approval is in the state `from`. */
  | {
      readonly _tag: "Transition"
      readonly from: ApprovalRow
      readonly to: ApprovalRow
      /** The entry of the audit log; null if no person made a transition. */
      readonly audit: NewAuditRow | null
    }

/** A change of one session, with its events. */
export interface SessionWrite {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly change: SessionChange
  /** The revision of the rules that the change follows from; null if it does not depend on the rules. */
  readonly rules_revision: number | null
  readonly events: ReadonlyArray<NewSessionEvent>
  /** The events that webhook endpoints and mailboxes are notified of. */
  readonly published: ReadonlyArray<ApprovalTransitionEvent>
  readonly now: Timestamp
  /** Runs after the write has committed, also if its caller has left meanwhile. */
  readonly onWritten: (written: Written) => Effect.Effect<void>
}

/** A write with its event for webhook endpoints, or null. */
export interface PreparedWrite extends SessionWrite {
  readonly notification: PreparedEvent | null
}

/** The result of a write that took effect. */
export interface Written {
  readonly trace_id: TraceId
  /** The number of the session's newest event. */
  readonly newest: number
}

/** The entry of the audit log that a change makes, or null. */
export const auditOf = ({ change }: Pick<SessionWrite, "change">): NewAuditRow | null => {
  switch (change._tag) {
    case "Step":
      return change.review?.audit ?? null
    case "Transition":
      return change.audit
    default:
      return null
  }
}

/** The id of the approval that a write is about, or null. */
export const approvalIdOf = ({ change }: SessionWrite): ApprovalId | null => {
  switch (change._tag) {
    case "Step":
      return change.approval?.approval_id ?? null
    case "Transition":
      return change.to.approval_id
    default:
      return null
  }
}

/** The revision of the shadow rules that a write follows from, or null. */
export const shadowRevisionOf = ({ change }: SessionWrite): number | null =>
  change._tag === "Step" ? change.shadow_revision : null

/** Names the step or the approval that a write changes. Of two writes with the same target in one batch, only the first can take effect. */
export const targetOf = ({ change, session_id }: SessionWrite): string => {
  switch (change._tag) {
    case "Step":
      return `${session_id} ${change.step.step_id}`
    case "Decision":
    case "Execution":
      return `${session_id} ${change.step_id}`
    case "Outcome":
      return `${session_id} ${change.outcome.step_id}`
    case "Transition":
      return change.to.approval_id
  }
}
