import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { ApprovalId, SessionId, StepId, TaskId } from "../Ids.ts"
import { JsonValue } from "../json/JsonValue.ts"
import { ApprovalStage } from "./ApprovalStage.ts"
import { CounterProposal } from "./CounterProposal.ts"
import { QuorumPart, Vote } from "./Quorum.ts"
import { Actor } from "../identity/Principal.ts"
import { formatTimestamp, timestamp, Timestamp } from "../Time.ts"

export const ApprovalStatus = documentedEnum({
  pending: "Waits for a decision. An escalated approval is still pending, in stage `admin`.",
  approved: "People approved it, as many as its quorum needs.",
  rejected: "A reviewer or admin rejected it.",
  expired: "It closed without a decision: its last window ended, or its session was closed."
})
export type ApprovalStatus = typeof ApprovalStatus.Type

export const ApprovalOutcome = documentedEnum({
  allow: "The agent may execute the step.",
  reject: "The agent must not execute the step."
})
export type ApprovalOutcome = typeof ApprovalOutcome.Type

export const DecisionSource = documentedEnum({
  human: "A person decided; `decided_by` names the key.",
  timeout: "The last window ended; the rule's timeout action applied.",
  session_closed: "The session was closed; the step is rejected."
})
export type DecisionSource = typeof DecisionSource.Type

export const Decision = documentedEnum({
  approve: "Allow the step.",
  reject: "Reject the step.",
  request_changes:
    "Reject the step and tell the agent what to change: `comment` is required, and is the instruction."
})
export type Decision = typeof Decision.Type

/** The requirements, from the weakest to the strictest. */
export const CommentRequirement = documentedEnum({
  never: "Comments are optional, except with `request_changes`.",
  reject: "A rejection needs a comment.",
  always: "Every decision needs a comment, each approval of a quorum too."
})
export type CommentRequirement = typeof CommentRequirement.Type

/** Whether a decision needs a comment. */
export const needsComment = (requirement: CommentRequirement, decision: Decision): boolean =>
  decision === "request_changes" ||
  requirement === "always" ||
  (requirement === "reject" && decision === "reject")

/** The stricter one of two requirements. */
export const stricterRequirement = (one: CommentRequirement, other: CommentRequirement): CommentRequirement =>
  CommentRequirement.literals.indexOf(one) < CommentRequirement.literals.indexOf(other) ? other : one

export const Approval = Schema.Struct({
  approval_id: ApprovalId.annotateKey({ description: "The approval's ID." }),
  session_id: SessionId.annotateKey({ description: "The agent session of the step." }),
  step_id: StepId.annotateKey({ description: "The step that waits, by the ID that the agent chose." }),
  task_id: Schema.NullOr(TaskId).annotateKey({ description: "The task of the step. Null if it names none." }),
  tool: Schema.String.annotateKey({ description: "The tool that the agent wants to use." }),
  action_class: Schema.String.annotateKey({ description: "The class of action, as the agent named it." }),
  arguments: Schema.optionalKey(JsonValue).annotateKey({
    description: "The tool's arguments, as the agent gave them. Absent if it gave none."
  }),
  rule_summary: Schema.NullOr(Schema.String).annotateKey({
    description:
      "What the step does, in one sentence of at most 500 characters: the rule's `summary_template` with the step's arguments. Null if the rule has none."
  }),
  agent_summary: Schema.NullOr(Schema.String).annotateKey({
    description:
      "What the agent claims that the step does: the `summary` of its request, which nothing has checked. Null if it gave none. The decision is bound to the arguments, not to this text."
  }),
  arguments_digest: Schema.String.annotateKey({
    description:
      "SHA-256 of the step's content, as 64 lowercase hex digits: the value that the agent received with its step."
  }),
  status: ApprovalStatus.annotateKey({ description: "The approval's status." }),
  stage: ApprovalStage.annotateKey({ description: "Whose review window is open, or was open last." }),
  requested_at: timestamp("When the agent submitted the step."),
  review_deadline_at: timestamp("When the reviewers' window ends."),
  escalation_deadline_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the admins' escalation window ends. Null if the rule grants none."
  }),
  expires_at: timestamp("When the open window ends: the one deadline that a client needs."),
  escalated_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the approval was escalated to admins. Null if it was not."
  }),
  timeout_action: ApprovalOutcome.annotateKey({
    description: "The outcome if the last window ends without a decision."
  }),
  quorum: Schema.Array(QuorumPart).annotateKey({
    description:
      "The approvals that it needs, as the rule asked for them: those of every part. A person counts once. One rejection closes it."
  }),
  approvals_required: Schema.Int.annotateKey({ description: "How many approvals the quorum needs." }),
  require_comment: CommentRequirement.annotateKey({
    description: "Which decisions on it need a comment, as the rule asked for it."
  }),
  approvals_given: Schema.Int.annotateKey({
    description: "How many of them were given: the number of `votes`."
  }),
  votes: Schema.Array(Vote).annotateKey({
    description: "The approvals that were given, oldest first. A rejection is in `decided_by`."
  }),
  outcome: Schema.NullOr(ApprovalOutcome).annotateKey({
    description: "The effect of the closed approval on its step. Null while it is pending."
  }),
  decision_source: Schema.NullOr(DecisionSource).annotateKey({
    description: "What closed the approval. Null while it is pending."
  }),
  decided_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the approval closed. Null while it is pending."
  }),
  decided_by: Schema.NullOr(Actor).annotateKey({
    description:
      "The API key that decided: the last one that approved, or the one that rejected. Null unless `decision_source` is `human`."
  }),
  comment: Schema.NullOr(Schema.String).annotateKey({
    description: "The comment given with the decision. Null if there is none."
  }),
  changes_requested: Schema.Boolean.annotateKey({
    description:
      "Whether the reviewer rejected it by requesting changes: `comment` is the instruction for the agent's next step."
  }),
  proposal: Schema.NullOr(CounterProposal).annotateKey({
    description: "The arguments that the reviewer proposed with the rejection. Null if there are none."
  })
}).annotate({
  identifier: "Approval",
  description: "A request for a person to approve or reject one governed step of an agent."
})
export type Approval = typeof Approval.Type

/** The members that tell of the arguments, which events do not carry. */
export const argumentMembers = ["arguments", "rule_summary", "agent_summary"] as const

/**
 * Encodes an approval without its arguments, its summaries and the arguments of its proposal, as events carry it. Equal to what `Approval`
 * encodes to, at a tenth of the cost.
 */
export const encodeWithoutArguments = ({
  agent_summary: _agent,
  arguments: _,
  rule_summary: _rule,
  ...approval
}: Approval): Omit<typeof Approval.Encoded, (typeof argumentMembers)[number]> => ({
  ...approval,
  requested_at: formatTimestamp(approval.requested_at),
  review_deadline_at: formatTimestamp(approval.review_deadline_at),
  escalation_deadline_at: formatNullable(approval.escalation_deadline_at),
  expires_at: formatTimestamp(approval.expires_at),
  escalated_at: formatNullable(approval.escalated_at),
  decided_at: formatNullable(approval.decided_at),
  votes: approval.votes.map(encodeVote),
  proposal:
    approval.proposal === null
      ? null
      : { expires_at: formatTimestamp(approval.proposal.expires_at), used_by: approval.proposal.used_by }
})

/** A vote as JSON, as `Vote` encodes it. */
const encodeVote = (vote: Vote): typeof Vote.Encoded => ({
  ...vote,
  voted_at: formatTimestamp(vote.voted_at)
})

const formatNullable = (at: Timestamp | null): string | null => (at === null ? null : formatTimestamp(at))
