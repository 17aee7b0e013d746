import { Schema } from "effect"
import { type EmailParts, formatMinute, type RenderedEmail, renderEmail, toSafeLine } from "../renderEmail.ts"
import type { Timestamp } from "../Time.ts"

/**
 * The entries of the audit log that admins are notified of by email: what leaves the organization goes elsewhere, or more of it does; or
 * webhooks do not arrive.
 */
export const AdminNoticeType = Schema.Literals([
  "destination.content_enabled",
  "destination.host_changed",
  "endpoint.failing",
  "endpoint.disabled"
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
  /** Scheme and host of the collector, and of the one before; URL of the endpoint without secrets. */
  readonly url_hint: string
  readonly previous_url_hint: string | null
  /** Id of the collector or the endpoint. */
  readonly target_id: string
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
  }
}

/** The facts about a collector or an endpoint. */
const factsOf = (notice: AdminNotice): EmailParts["facts"] => {
  const at = formatMinute(notice.occurred_at)
  const url = toSafeLine(notice.url_hint)
  switch (notice.type) {
    case "destination.content_enabled":
    case "destination.host_changed":
      return [
        ["Collector", url],
        ...(notice.previous_url_hint === null
          ? []
          : [["Before", toSafeLine(notice.previous_url_hint)] as const]),
        ["Changed by", toSafeLine(notice.author)],
        ["Changed", at]
      ]
    case "endpoint.failing":
      return [
        ["Endpoint", url],
        ["Failing since", formatMinute(notice.failing_since ?? notice.occurred_at)]
      ]
    case "endpoint.disabled":
      return [
        ["Endpoint", url],
        ["Disabled", at]
      ]
  }
}

/** Renders a notice as text and as HTML. */
export const renderAdminNotice = (notice: AdminNotice): RenderedEmail => {
  const named = toSafeLine(notice.organization)
  const { lead, subject } = texts[notice.type]
  const isEndpoint = notice.type.startsWith("endpoint.")
  return renderEmail({
    subject: `${subject}: ${named}`,
    lead,
    facts: [["Organization", named], ...factsOf(notice)],
    action: isEndpoint ? "Review the endpoint" : "Review telemetry",
    link: `${notice.publicUrl}/console/${isEndpoint ? `endpoints/${notice.target_id}` : "telemetry"}`,
    reason: `You receive this because API key "${toSafeLine(notice.key)}" of ${named} lists your address as an admin. This mailbox is not monitored.`
  })
}
