import { Schema } from "effect"
import type { Approval, ApprovalStatus } from "./Approval.ts"
import { type ApprovalEventType } from "./ApprovalEvent.ts"
import type { ApprovalStage } from "./ApprovalStage.ts"
import { describeProgress, type Vote } from "./Quorum.ts"
import { formatMinute, type RenderedEmail, renderEmail, toSafeLine } from "../renderEmail.ts"
import type { Scope } from "../identity/Scope.ts"

/** The approval events that are sent by email. Decisions are not among them: those go to webhook endpoints only. */
export const ApprovalEmailType = Schema.Literals([
  "approval.requested",
  "approval.expiring",
  "approval.escalated",
  "approval.expired"
])
export type ApprovalEmailType = typeof ApprovalEmailType.Type

/** Whether an event is sent by email. */
export const isApprovalEmailType: (type: ApprovalEventType) => type is ApprovalEmailType =
  Schema.is(ApprovalEmailType)

/**
 * The scope that the recipients of an email have. During the admins' escalation window only admins can decide, so only they get emails; the
 * final `approval.expired` goes to everyone who was asked.
 */
export const recipientScope = (type: ApprovalEmailType, stage: ApprovalStage): Scope =>
  type !== "approval.expired" && stage === "admin" ? "approvals.admin" : "approvals.decide"

/** Whose keys are asked by email, beside their scope. */
export interface RecipientGroups {
  /** A recipient is in one of these groups. */
  readonly groups: ReadonlyArray<string>
  /** Whether admins are recipients without such a group too. */
  readonly admins: boolean
}

/** The groups of the recipients of an email: only those are asked who may decide. Null: anyone with the scope. */
export const recipientGroups = ({
  quorum,
  stage
}: Pick<Approval, "quorum" | "stage">): RecipientGroups | null => {
  const groups = quorum.flatMap(({ group }) => (group === null ? [] : [group]))
  return groups.length < quorum.length ? null : { groups, admins: stage === "admin" }
}

/** The facts in an email. The step's arguments are not among them. */
export interface ApprovalEmailInput {
  readonly type: ApprovalEmailType
  readonly approval: Pick<
    Approval,
    | "approval_id"
    | "session_id"
    | "step_id"
    | "task_id"
    | "tool"
    | "action_class"
    | "stage"
    | "requested_at"
    | "expires_at"
    | "escalation_deadline_at"
    | "timeout_action"
    | "quorum"
    | "outcome"
    | "decision_source"
  > & {
    readonly status: ApprovalStatus
    readonly votes: ReadonlyArray<Pick<Vote, "groups" | "stage">>
  }
  /** Name of the organization, and of the API key that lists the recipient's address. */
  readonly organization: string
  readonly key: string
  /** The service's public URL, without a trailing slash. */
  readonly publicUrl: string
}

/** Renders an email as text and as HTML. */
export const renderApprovalEmail = (input: ApprovalEmailInput): RenderedEmail => {
  const { approval, publicUrl } = input
  const tool = toSafeLine(approval.tool)
  const link = `${publicUrl}/console/approvals/${approval.approval_id}`
  const { lead, subject } = subjectAndLead(input)
  const isPending = input.type !== "approval.expired"
  const progress = describeProgress(approval)
  const facts: ReadonlyArray<readonly [string, string]> = [
    ["Tool", tool],
    ["Action class", toSafeLine(approval.action_class)],
    ["Requested", formatMinute(approval.requested_at)],
    ...(progress === "" ? [] : [["Approvals", toSafeLine(progress)] as const]),
    ...(isPending
      ? [
          ["Decide by", formatMinute(approval.expires_at)] as const,
          ["On timeout", timeoutEffect(approval)] as const
        ]
      : []),
    ...(approval.task_id === null ? [] : [["Task", approval.task_id] as const]),
    ["Session", approval.session_id],
    ["Step", toSafeLine(approval.step_id)],
    ["Approval", approval.approval_id]
  ]
  const action = isPending ? "Review and decide" : "View approval"
  const reason = `You receive this because API key "${toSafeLine(input.key)}" of ${toSafeLine(input.organization)} lists your address as an approver. This mailbox is not monitored.`
  return renderEmail({ subject, lead, facts, action, link, reason })
}

/**
 * The subject has no text of the agent: addresses need not be verified, and a key that may submit steps could otherwise
 * send its text to any address in the operator's name. The operator gave the organization its name.
 */
const subjectAndLead = ({
  approval,
  organization,
  type
}: ApprovalEmailInput): { readonly subject: string; readonly lead: string } => {
  const named = toSafeLine(organization)
  const outcome = approval.outcome === "allow" ? "allowed" : "rejected"
  switch (type) {
    case "approval.requested":
      return {
        subject: `Approval requested: ${named}`,
        lead: "An agent is waiting for approval to use a tool."
      }
    case "approval.expiring":
      return {
        subject: `Approval expires ${formatMinute(approval.expires_at)}: ${named}`,
        lead: "The time to decide is almost over. The agent is still waiting."
      }
    case "approval.escalated":
      return {
        subject: `Approval escalated to admins: ${named}`,
        lead: "The reviewers did not decide in time, so admins must decide. The agent is still waiting."
      }
    case "approval.expired":
      return {
        subject: `Approval expired, step ${outcome}: ${named}`,
        lead:
          approval.decision_source === "session_closed"
            ? "The session was closed before anyone decided, so the step was rejected."
            : `Nobody decided in time. The step was ${outcome}, which is the rule's timeout action.`
      }
  }
}

/** What happens if the open window ends without a decision. */
const timeoutEffect = ({
  escalation_deadline_at,
  stage,
  timeout_action
}: ApprovalEmailInput["approval"]): string =>
  stage === "reviewer" && escalation_deadline_at !== null
    ? "escalated to admins"
    : timeout_action === "allow"
      ? "the step is allowed"
      : "the step is rejected"
