import { Schema } from "effect"
import { type EmailParts, formatMinute, type RenderedEmail, renderEmail, toSafeLine } from "../renderEmail.ts"
import { describeStop, type ReviewerStopReason } from "../approvals/Reviewer/describeStop.ts"
import type { Timestamp } from "../Time.ts"

/**
 * The entries of the audit log that admins are notified of by email: what leaves the organization goes elsewhere, or more of it does;
 * webhooks do not arrive; or a reviewer model lost the right to decide.
 */
export const AdminNoticeType = Schema.Literals([
  "destination.content_enabled",
  "destination.host_changed",
  "endpoint.failing",
  "endpoint.disabled",
  "reviewer.stopped"
])
export type AdminNoticeType = typeof AdminNoticeType.Type

/** The facts in a notice. */
export interface AdminNotice {
  readonly type: AdminNoticeType
  /** Name of the organization, of the key that made the change, and of the key that lists the recipient's address. */
  readonly organization: string
  readonly author: string
  readonly key: string
  readonly occurred_at: Timestamp
  /** Scheme and host of the collector; URL of the endpoint without secrets; name of the reviewer's task. */
  readonly target_name: string
  /** Scheme and host of the collector before. */
  readonly previous_url_hint: string | null
  /** Id of the collector, the endpoint or the reviewer's task. */
  readonly target_id: string
  /** Why the reviewer was stopped; null: another notice. */
  readonly stopped_reason: ReviewerStopReason | null
  /** When the endpoint's deliveries began to fail; null: another notice. */
  readonly failing_since: Timestamp | null
  /** The service's public URL, without a trailing slash. */
  readonly publicUrl: string
}

const texts: Record<AdminNoticeType, { readonly subject: string; readonly lead: string }> = {
  "destination.content_enabled": {
    subject: "Telemetry exports content",
    lead: "From now on, inputs, answers, arguments and results are exported to the telemetry collector, after redaction."
  },
  "destination.host_changed": {
    subject: "Telemetry goes to another host",
    lead: "The telemetry collector of the organization is at another host than before."
  },
  "endpoint.failing": {
    subject: "Webhooks do not arrive",
    lead: "No delivery to this webhook endpoint has succeeded for an hour. Attempts continue, with pauses of up to 15 minutes. Deliveries whose attempts all fail can be replayed once the receiver works."
  },
  "endpoint.disabled": {
    subject: "A webhook endpoint was disabled",
    lead: "The receiver answered 410 Gone, which asks for no further deliveries. The endpoint gets no events until somebody enables it again."
  },
  "reviewer.stopped": {
    subject: "A reviewer model no longer decides",
    lead: "It has lost the right to decide. Its rules ask people again, from the next step on. Its last decisions are listed for review; an admin can restore it."
  }
}

/** The facts about a collector, an endpoint or a reviewer. */
const factsOf = (notice: AdminNotice): EmailParts["facts"] => {
  const at = formatMinute(notice.occurred_at)
  const name = toSafeLine(notice.target_name)
  switch (notice.type) {
    case "destination.content_enabled":
    case "destination.host_changed":
      return [
        ["Collector", name],
        ...(notice.previous_url_hint === null
          ? []
          : [["Before", toSafeLine(notice.previous_url_hint)] as const]),
        ["Changed by", toSafeLine(notice.author)],
        ["Changed", at]
      ]
    case "endpoint.failing":
      return [
        ["Endpoint", name],
        ["Failing since", formatMinute(notice.failing_since ?? notice.occurred_at)]
      ]
    case "endpoint.disabled":
      return [
        ["Endpoint", name],
        ["Disabled", at]
      ]
    case "reviewer.stopped":
      return [
        ["Reviewer", name],
        ...(notice.stopped_reason === null
          ? []
          : [["Because", describeStop(notice.stopped_reason)] as const]),
        ["Stopped", at]
      ]
  }
}

/** The page of the console that a notice is about. */
const pageOf = ({ target_id, type }: AdminNotice): { readonly action: string; readonly path: string } => {
  switch (type) {
    case "destination.content_enabled":
    case "destination.host_changed":
      return { action: "Review telemetry", path: "telemetry" }
    case "endpoint.failing":
    case "endpoint.disabled":
      return { action: "Review the endpoint", path: `endpoints/${target_id}` }
    case "reviewer.stopped":
      return { action: "Review its decisions", path: `reviewers/${target_id}` }
  }
}

/** Renders a notice as text and as HTML. */
export const renderAdminNotice = (notice: AdminNotice): RenderedEmail => {
  const named = toSafeLine(notice.organization)
  const { lead, subject } = texts[notice.type]
  const { action, path } = pageOf(notice)
  return renderEmail({
    subject: `${subject}: ${named}`,
    lead,
    facts: [["Organization", named], ...factsOf(notice)],
    action,
    link: `${notice.publicUrl}/console/${path}`,
    reason: `You receive this because API key "${toSafeLine(notice.key)}" of ${named} lists your address as an admin. This mailbox is not monitored.`
  })
}
