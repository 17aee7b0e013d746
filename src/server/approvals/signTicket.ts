import type { Ticket } from "../../ticket/index.ts"
import type { SecretBox } from "../secrets/SecretBox.ts"

/** Signs a ticket: a compact JWS (RFC 7515) that `countersign/ticket` verifies by the public keys of the service. */
export const signTicket = (
  { publicKeys: [key], signPublicly }: Pick<SecretBox["Service"], "publicKeys" | "signPublicly">,
  ticket: Ticket
): string => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
  const text = `${part({ alg: key.alg, typ: "countersign-ticket+jwt", kid: key.kid })}.${part(ticket)}`
  return `${text}.${Buffer.from(signPublicly(Buffer.from(text))).toString("base64url")}`
}
