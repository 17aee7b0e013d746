import { formatMinute, type RenderedEmail, renderEmail, toSafeLine } from "../renderEmail.ts"
import type { Timestamp } from "../Time.ts"

/**
 * The facts in a verification email. All but the address come from the service and its operator: until its owner
 * confirms, a key must not be able to send a text of its own to an address.
 */
export interface VerificationEmailInput {
  /** Name of the organization. */
  readonly organization: string
  readonly address: string
  /** The link, which contains a secret token. */
  readonly link: string
  readonly expires_at: Timestamp
}

/** Renders the email that asks the owner of an address for confirmation. */
export const renderVerificationEmail = ({
  address,
  expires_at,
  link,
  organization
}: VerificationEmailInput): RenderedEmail => {
  const named = toSafeLine(organization)
  return renderEmail({
    subject: `Confirm your email address: ${named}`,
    lead: "Confirm that approval emails may be sent to this address.",
    facts: [
      ["Organization", named],
      ["Address", toSafeLine(address)],
      ["Link expires", formatMinute(expires_at)]
    ],
    action: "Confirm this address",
    link,
    reason: `You receive this because an API key of ${named} lists your address. If you did not expect it, do nothing. This mailbox is not monitored.`
  })
}
