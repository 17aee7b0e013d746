import { Schema } from "effect"
import { formatMinute, type RenderedEmail, renderEmail, toSafeLine } from "../renderEmail.ts"
import type { Timestamp } from "../Time.ts"

/** The entries of the audit log that admins are told by email: what leaves the organization goes elsewhere, or more of it does. */
export const AdminNoticeType = Schema.Literals(["destination.content_enabled", "destination.host_changed"])
export type AdminNoticeType = typeof AdminNoticeType.Type

/** The facts in a notice. */
export interface AdminNotice {
  readonly type: AdminNoticeType
  /** Name of the organization, of the key that made the change, and of the key that lists the recipient's address. */
  readonly organization: string
  readonly author: string
  readonly key: string
  readonly occurred_at: Timestamp
  /** Scheme and host of the collector, and of the one before. */
  readonly url_hint: string
  readonly previous_url_hint: string | null
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
  }
}

/** Renders a notice as text and as HTML. */
export const renderAdminNotice = (notice: AdminNotice): RenderedEmail => {
  const named = toSafeLine(notice.organization)
  const { lead, subject } = texts[notice.type]
  return renderEmail({
    subject: `${subject}: ${named}`,
    lead,
    facts: [
      ["Organization", named],
      ["Collector", toSafeLine(notice.url_hint)],
      ...(notice.previous_url_hint === null
        ? []
        : [["Before", toSafeLine(notice.previous_url_hint)] as const]),
      ["Changed by", toSafeLine(notice.author)],
      ["Changed", formatMinute(notice.occurred_at)]
    ],
    action: "Review telemetry",
    link: `${notice.publicUrl}/console/telemetry`,
    reason: `You receive this because API key "${toSafeLine(notice.key)}" of ${named} lists your address as an admin. This mailbox is not monitored.`
  })
}
