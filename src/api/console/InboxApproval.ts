/** An approval as the console's lists show it. */
import { Schema } from "effect"
import { Approval } from "../../domain/approvals/Approval.ts"
import { Actor } from "../../domain/identity/Principal.ts"
import { ApprovalSnapshot } from "../SessionStream.ts"

/** What tells a pending approval from others of its tool, for one line of a list. */
export const InboxLine = Schema.Struct({
  rule_summary: Approval.fields.rule_summary,
  agent_summary: Approval.fields.agent_summary,
  /** The most important arguments on one line. Null: there are none. */
  arguments: Schema.NullOr(Schema.String),
  /** The key that submitted the step. */
  requested_by: Actor,
  /** Whether that key may decide. */
  self_approval: Schema.Boolean,
  /** Values of the session's metadata. Null: there are none, or the key lacks the scope `sessions.read`. */
  about: Schema.NullOr(Schema.String),
  /** The numbers of the newest message of a reviewer and of the agent; 0: none. */
  newest_question: Schema.Int,
  newest_answer: Schema.Int
}).annotate({ identifier: "InboxLine" })
export type InboxLine = typeof InboxLine.Type

/** An approval with its line. */
export const InboxApproval = Schema.Struct({
  ...ApprovalSnapshot.fields,
  line: Schema.optionalKey(InboxLine)
}).annotate({ identifier: "InboxApproval" })
export type InboxApproval = typeof InboxApproval.Type
