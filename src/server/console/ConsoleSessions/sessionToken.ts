import { Redacted } from "effect"
import { createHash, randomBytes } from "node:crypto"
import { OrgId } from "../../../domain/Ids.ts"

/** Random bytes of a session token. */
const TOKEN_BYTES = 32

/** A parsed token: the organization and the digest of its secret, which are the key of its row. */
export interface SessionToken {
  readonly org_id: OrgId
  /** SHA-256. */
  readonly digest: Uint8Array
}

const digestOf = (secret: string): Uint8Array => createHash("sha256").update(secret).digest()

/** The digest in hexadecimal, by which this replica remembers the session. */
export const hexOf = (digest: Uint8Array): string => Buffer.from(digest).toString("hex")

/** A new token, and its text for the browser. */
export const generateToken = (
  org_id: OrgId
): { readonly token: SessionToken; readonly text: Redacted.Redacted } => {
  const secret = randomBytes(TOKEN_BYTES).toString("base64url")
  return {
    token: { org_id, digest: digestOf(secret) },
    text: Redacted.make(`${org_id}.${secret}`, { label: "ConsoleToken" })
  }
}

const TOKEN = /^(org_[0-9a-f]{32})\.([\w-]{43})$/

export const parseToken = (text: Redacted.Redacted): SessionToken | undefined => {
  const [, org = "", secret = ""] = TOKEN.exec(Redacted.value(text)) ?? []
  return secret === "" ? undefined : { org_id: OrgId.make(org), digest: digestOf(secret) }
}
