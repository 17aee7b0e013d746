import { DateTime, Schema } from "effect"
import type { Approval, ApprovalStage } from "./Approval.ts"
import { type ApprovalEventType } from "./ApprovalEvent.ts"
import type { Scope } from "../identity/Scope.ts"
import type { Timestamp } from "../Time.ts"

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
    | "outcome"
    | "decision_source"
  >
  /** Name of the organization, and of the API key that lists the recipient's address. */
  readonly organization: string
  readonly key: string
  /** The service's public URL, without a trailing slash. */
  readonly publicUrl: string
}

/** A rendered email. `subject` is one line; `html` is a complete document that loads nothing. */
export interface ApprovalEmail {
  readonly subject: string
  readonly text: string
  readonly html: string
}

/** Longest text of an agent to show in full, in characters. Texts can have 200, which is too long for a line of email. */
const MAX_SHOWN_CHARACTERS = 120

/** A text of an agent or a person as one safe line: invisible, control and bidirectional characters become U+FFFD. */
const toSafeLine = (text: string): string => {
  const line = text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]/gu, "\ufffd")
    .replace(/\s+/gu, " ")
    .trim()
  const characters = [...line]
  return characters.length > MAX_SHOWN_CHARACTERS
    ? `${characters.slice(0, MAX_SHOWN_CHARACTERS - 1).join("")}…`
    : line
}

/** `2026-11-21 08:45 UTC` */
const formatMinute = (at: Timestamp): string => `${DateTime.formatIso(at).slice(0, 16).replace("T", " ")} UTC`

/** Renders an email as text and as HTML. */
export const renderApprovalEmail = (input: ApprovalEmailInput): ApprovalEmail => {
  const { approval, publicUrl } = input
  const tool = toSafeLine(approval.tool)
  const link = `${publicUrl}/console/approvals/${approval.approval_id}`
  const { lead, subject } = subjectAndLead(input)
  const isPending = input.type !== "approval.expired"
  const facts: ReadonlyArray<readonly [string, string]> = [
    ["Tool", tool],
    ["Action class", toSafeLine(approval.action_class)],
    ["Requested", formatMinute(approval.requested_at)],
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
  return {
    subject,
    text: textOf({ lead, facts, action, link, reason }),
    html: htmlOf({ subject, lead, facts, action, link, reason })
  }
}

/**
 * The subject has no text of the agent: addresses are not verified, and a key that may submit steps could otherwise
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
        lead: "The reviewers did not decide in time, so an admin must decide. The agent is still waiting."
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

/** The parts that both forms of the email show. */
interface EmailParts {
  readonly lead: string
  readonly facts: ReadonlyArray<readonly [string, string]>
  readonly action: string
  readonly link: string
  readonly reason: string
}

const textOf = ({ facts, action, lead, link, reason }: EmailParts): string => {
  const width = Math.max(...facts.map(([name]) => name.length)) + 2
  const lines = facts.map(([name, value]) => `  ${name.padEnd(width)}${value}`)
  return `${[lead, "", ...lines, "", `${action}:`, link, "", "-- ", reason].join("\n")}\n`
}

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}

const escape = (text: string): string => text.replace(/[&<>"']/g, (character) => escapes[character] ?? "")

/** Styles are inline because many mail clients drop a style sheet in the head. */
const htmlOf = ({
  facts,
  action,
  lead,
  link,
  reason,
  subject
}: EmailParts & { readonly subject: string }) => `\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escape(subject)}</title>
</head>
<body style="margin:0;padding:24px;font:16px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif">
<div style="max-width:600px;margin:0 auto">
<h1 style="margin:0 0 8px;font-size:20px;line-height:1.3">${escape(subject)}</h1>
<p style="margin:0 0 16px">${escape(lead)}</p>
<table role="presentation" style="margin:0 0 24px;border-collapse:collapse">
${facts
  .map(
    ([name, value]) => `\
<tr><td style="padding:2px 16px 2px 0;vertical-align:top;white-space:nowrap;opacity:.7">${escape(name)}</td>\
<td style="padding:2px 0;vertical-align:top;word-break:break-word">${escape(value)}</td></tr>`
  )
  .join("\n")}
</table>
<p style="margin:0 0 8px"><a href="${escape(link)}" style="display:inline-block;padding:10px 18px;border-radius:6px;background:#1f4fd8;color:#ffffff;text-decoration:none">${escape(action)}</a></p>
<p style="margin:0 0 24px;font-size:13px;word-break:break-all">${escape(link)}</p>
<p style="margin:0;font-size:13px;opacity:.7">${escape(reason)}</p>
</div>
</body>
</html>
`
