import { Redacted, Schema } from "effect"
import { OrgId } from "../Ids.ts"
import { parseLinkToken } from "./VerificationLink.ts"

/** Where the link of an invitation leads, below the public URL: a page of the console. */
export const INVITATION_PATH = "/console/invitation"

/** The organization and the secret of a link. */
export interface InvitationToken {
  readonly org_id: OrgId
  readonly secret: Redacted.Redacted
}

const isOrgId = Schema.is(OrgId)

/** The token in a link, or undefined if {@link invitationLink} cannot have made the text. */
export const parseInvitationToken = (text: Redacted.Redacted): InvitationToken | undefined => {
  const [org_id = "", token = ""] = Redacted.value(text).split(".", 2)
  const secret = parseLinkToken(token)
  return isOrgId(org_id) && secret !== undefined ? { org_id, secret } : undefined
}

/** The link of an invitation. The token is in the fragment, which browsers send to no server and proxies do not log. */
export const invitationLink = (publicUrl: string, { org_id, secret }: InvitationToken): string =>
  `${publicUrl}${INVITATION_PATH}#${org_id}.${Redacted.value(secret)}`
