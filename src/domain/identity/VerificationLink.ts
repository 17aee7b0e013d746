import { Duration, Effect, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { createHash } from "node:crypto"

/** Where the link of a verification email leads, below the public URL. */
export const VERIFY_EMAIL_PATH = "/verify-email"

/** How long a link can be used. */
export const LINK_LIFETIME = Duration.hours(48)

/** The most usable links to one address. Each attempt to send an email makes one, because the last may have arrived. */
export const MAX_LINKS = 10

/** Random bytes of a token. */
const TOKEN_BYTES = 32

/** 32 bytes in base64url: 43 digits, the last with two zero bits. */
const tokenForm = /^[\w-]{42}[AEIMQUYcgkosw048]$/

/** Generates the token of a link. Only the email contains it; the database stores its digest. */
export const generateLinkToken: Effect.Effect<Redacted.Redacted> = Effect.sync(() =>
  Redacted.make(Buffer.from(SecureRandom.randomBytesUnsafe(TOKEN_BYTES)).toString("base64url"), {
    label: "LinkToken"
  })
)

/** The token of a link, or undefined if {@link generateLinkToken} cannot have made the text. */
export const parseLinkToken = (text: string | null): Redacted.Redacted | undefined =>
  text !== null && tokenForm.test(text) ? Redacted.make(text, { label: "LinkToken" }) : undefined

/** The SHA-256 digest of a token. A slow hash is not needed: 2^256 tokens cannot be tried. */
export const linkTokenDigest = (token: Redacted.Redacted): Uint8Array =>
  createHash("sha256").update(Redacted.value(token)).digest()

/** The link with a token. `publicUrl` has no slash at its end. */
export const verificationLink = (publicUrl: string, token: Redacted.Redacted): string =>
  `${publicUrl}${VERIFY_EMAIL_PATH}?token=${Redacted.value(token)}`
