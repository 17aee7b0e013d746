import { formatMinute, type RenderedEmail, renderEmail, toSafeLine } from "../renderEmail.ts"
import type { Timestamp } from "../Time.ts"

/**
 * The facts in the email of an invitation. All but the address come from the service and its operator: a key must not be able to send a text
 * of its own, such as a name, to any address.
 */
export interface InvitationEmailInput {
  /** Name of the organization. */
  readonly organization: string
  readonly address: string
  /** The link, which contains a secret token. */
  readonly link: string
  readonly expires_at: Timestamp
}

/** Renders the email of an invitation. */
export const renderInvitationEmail = ({
  address,
  expires_at,
  link,
  organization
}: InvitationEmailInput): RenderedEmail => {
  const named = toSafeLine(organization)
  return renderEmail({
    subject: `Invitation to Countersign: ${named}`,
    lead: `An administrator of ${named} invites you to its Countersign console.`,
    facts: [
      ["Organization", named],
      ["Address", toSafeLine(address)],
      ["Link expires", formatMinute(expires_at)]
    ],
    action: "Accept the invitation",
    link,
    reason: `You receive this because an administrator of ${named} invited this address. The link works once. If you did not expect it, do nothing. This mailbox is not monitored.`
  })
}
