/** Logout tokens of OpenID Connect Back-Channel Logout 1.0. */
import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey, jwtVerify } from "jose"
import type { HttpFetch } from "./boundedFetch.ts"

/** The member of `events` that makes a token a logout token. */
const EVENT = "http://schemas.openid.net/event/backchannel-logout"

/** Public-key signatures: a secret of the client must not sign for the provider. */
export const PUBLIC_KEY_ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519"
]

/** The oldest token that is accepted, in seconds. */
const MAX_AGE_SECONDS = 300

/** Longest text of a claim. */
const MAX_CLAIM = 255

/** Whom a logout token signs out: one session of the provider, or all of a person. At least one is there. */
export interface LogoutTarget {
  readonly subject: string | undefined
  readonly session: string | undefined
  /** When the provider issued the token, in epoch seconds. */
  readonly issuedAt: number
}

const lineOf = (claim: unknown): string | undefined =>
  typeof claim === "string" && claim !== "" && claim.length <= MAX_CLAIM ? claim : undefined

/** Verifies a logout token (section 2.6 of the specification). Rejects for any other token, such as an ID token. */
export const verifyLogoutToken = async (
  token: string,
  expected: {
    readonly issuer: string
    readonly clientId: string
    readonly keys: JWTVerifyGetKey
    readonly clockTolerance: number
    /** In epoch milliseconds. */
    readonly now: number
  }
): Promise<LogoutTarget> => {
  const { payload } = await jwtVerify(token, expected.keys, {
    issuer: expected.issuer,
    audience: expected.clientId,
    algorithms: PUBLIC_KEY_ALGORITHMS,
    clockTolerance: expected.clockTolerance,
    maxTokenAge: MAX_AGE_SECONDS,
    requiredClaims: ["iat", "jti", "events"],
    currentDate: new Date(expected.now)
  })
  const { events, iat = 0 } = payload
  const isLogout =
    typeof events === "object" && events !== null && EVENT in events && payload["nonce"] === undefined
  const subject = lineOf(payload.sub)
  const session = lineOf(payload["sid"])
  if (!isLogout || (subject === undefined && session === undefined)) throw new Error("Not a logout token")
  return { subject, session, issuedAt: iat }
}

/** The provider's keys cannot be read, so a token can be neither accepted nor refused. */
export class KeysUnavailable extends Error {}

/** Pause between two readings of the provider's keys because none of them fits. */
const KEYS_MILLIS = 5_000

/** Makes the look-up of the provider's keys by their address, which its metadata may change. */
export const makeLogoutKeys = (fetch: HttpFetch): ((address: string) => JWTVerifyGetKey) => {
  let last: { readonly address: string; readonly keys: JWTVerifyGetKey } | undefined
  return (address) => {
    if (last?.address === address) return last.keys
    const stored = createRemoteJWKSet(new URL(address), {
      cooldownDuration: KEYS_MILLIS,
      [customFetch]: async (text, { headers, method }) => {
        const response = await fetch(text, { method, headers: Object.fromEntries(headers) }).catch(
          () => undefined
        )
        if (response?.status !== 200) throw new KeysUnavailable()
        return response
      }
    })
    const keys: JWTVerifyGetKey = async (header, token) => {
      const isRecent = stored.coolingDown
      try {
        return await stored(header, token)
      } catch (error) {
        // It may be a new key of the provider.
        throw isRecent && error instanceof errors.JWKSNoMatchingKey ? new KeysUnavailable() : error
      }
    }
    last = { address, keys }
    return keys
  }
}
