import { DateTime, Schema } from "effect"
import type { Approval, ApprovalStage } from "./Approval.ts"
import { type ApprovalEventType } from "./ApprovalEvent.ts"
import type { Scope } from "../identity/Scope.ts"
import type { Timestamp } from "../Time.ts"

/** The events that people are told of by mail. Decisions of theirs are not among them: those are for receivers. */
export const ApprovalEmailType = Schema.Literals([
  "approval.requested",
  "approval.expiring",
  "approval.escalated",
  "approval.expired"
])
export type ApprovalEmailType = typeof ApprovalEmailType.Type

/** Whether an event is told by mail. */
export const isApprovalEmailType: (type: ApprovalEventType) => type is ApprovalEmailType =
  Schema.is(ApprovalEmailType)

/**
 * To whom an event is told: to those who hold this scope. While the admins' window is open nobody else can do anything about it; that it
 * is over is for everyone who was asked.
 */
export const recipientScope = (type: ApprovalEmailType, stage: ApprovalStage): Scope =>
  type !== "approval.expired" && stage === "admin" ? "approvals.admin" : "approvals.decide"

/** What a notice is made of. The arguments of the step are no part of it. */
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
  /** Of the organization and of the key that makes the recipient one. */
  readonly organization: string
  readonly key: string
  /** How the outside reaches the service, without a slash at its end. */
  readonly publicUrl: string
}

/** A notice as it is read: `subject` is one line, `html` a whole document without anything that is loaded. */
export interface ApprovalEmail {
  readonly subject: string
  readonly text: string
  readonly html: string
}

/** Longest text of the agent's that is shown: it may be 200 characters, which no line of mail is for. */
const SHOWN_CHARACTERS = 120

/**
 * Text of an agent or a person as one harmless line: what does not show, moves the cursor or turns the direction of writing is replaced
 * by a mark that shows.
 */
const plain = (text: string): string => {
  const line = text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]/gu, "\ufffd")
    .replace(/\s+/gu, " ")
    .trim()
  const characters = [...line]
  return characters.length > SHOWN_CHARACTERS
    ? `${characters.slice(0, SHOWN_CHARACTERS - 1).join("")}…`
    : line
}

/** `2026-11-21 08:45 UTC` */
const minute = (at: Timestamp): string => `${DateTime.formatIso(at).slice(0, 16).replace("T", " ")} UTC`

/** Writes a notice. */
export const renderApprovalEmail = (notice: ApprovalEmailInput): ApprovalEmail => {
  const { approval, publicUrl } = notice
  const tool = plain(approval.tool)
  const link = `${publicUrl}/console/approvals/${approval.approval_id}`
  const { lead, subject } = wordsOf(notice, tool)
  const waits = notice.type !== "approval.expired"
  const facts: ReadonlyArray<readonly [string, string]> = [
    ["Tool", tool],
    ["Action class", plain(approval.action_class)],
    ["Requested", minute(approval.requested_at)],
    ...(waits
      ? [["Decide by", minute(approval.expires_at)] as const, ["If nobody does", silence(approval)] as const]
      : []),
    ...(approval.task_id === null ? [] : [["Task", approval.task_id] as const]),
    ["Session", approval.session_id],
    ["Step", plain(approval.step_id)],
    ["Approval", approval.approval_id]
  ]
  const invitation = waits ? "Review and decide" : "See what happened"
  const reason = `You get this because the API key "${plain(notice.key)}" of ${plain(notice.organization)} has your address and may decide approvals. Replies are not read.`
  return {
    subject,
    text: textOf({ lead, facts, invitation, link, reason }),
    html: htmlOf({ subject, lead, facts, invitation, link, reason })
  }
}

const wordsOf = (
  { approval, type }: ApprovalEmailInput,
  tool: string
): { readonly subject: string; readonly lead: string } => {
  const outcome = approval.outcome === "allow" ? "allowed" : "rejected"
  switch (type) {
    case "approval.requested":
      return {
        subject: `${tool} waits for a decision`,
        lead: "An agent asks for leave to use a tool, and waits."
      }
    case "approval.expiring":
      return {
        subject: `${tool} waits for a decision until ${minute(approval.expires_at)}`,
        lead: "The time to decide is nearly over, and the agent still waits."
      }
    case "approval.escalated":
      return {
        subject: `${tool} waits for a decision by an admin`,
        lead: "The reviewers did not decide in time, so the admins are asked. The agent still waits."
      }
    case "approval.expired":
      return {
        subject: `${tool} was ${outcome} without a decision`,
        lead:
          approval.decision_source === "session_closed"
            ? "The session was closed while the step waited, so the step was rejected."
            : `Nobody decided in time, so the step was ${outcome}, as its rule says.`
      }
  }
}

/** What a silent end of the window that is open does. */
const silence = ({
  escalation_deadline_at,
  stage,
  timeout_action
}: ApprovalEmailInput["approval"]): string =>
  stage === "reviewer" && escalation_deadline_at !== null
    ? "the admins are asked"
    : timeout_action === "allow"
      ? "the step is allowed"
      : "the step is rejected"

interface Parts {
  readonly lead: string
  readonly facts: ReadonlyArray<readonly [string, string]>
  readonly invitation: string
  readonly link: string
  readonly reason: string
}

const textOf = ({ facts, invitation, lead, link, reason }: Parts): string => {
  const width = Math.max(...facts.map(([name]) => name.length)) + 2
  const lines = facts.map(([name, value]) => `  ${name.padEnd(width)}${value}`)
  return `${[lead, "", ...lines, "", `${invitation}:`, link, "", "-- ", reason].join("\n")}\n`
}

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}

const escape = (text: string): string => text.replace(/[&<>"']/g, (character) => escapes[character] ?? "")

/** Styles stand with each element: many mail programs drop those of the head. */
const htmlOf = ({
  facts,
  invitation,
  lead,
  link,
  reason,
  subject
}: Parts & { readonly subject: string }) => `\
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
<p style="margin:0 0 8px"><a href="${escape(link)}" style="display:inline-block;padding:10px 18px;border-radius:6px;background:#1f4fd8;color:#ffffff;text-decoration:none">${escape(invitation)}</a></p>
<p style="margin:0 0 24px;font-size:13px;word-break:break-all">${escape(link)}</p>
<p style="margin:0;font-size:13px;opacity:.7">${escape(reason)}</p>
</div>
</body>
</html>
`
