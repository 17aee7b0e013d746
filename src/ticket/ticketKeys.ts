/** A public key of the service, as a JSON Web Key (RFC 8037). */
export interface PublicKey {
  readonly kty: string
  readonly crv?: string
  readonly kid?: string
  /** The 32 bytes of the key, in base64url. */
  readonly x?: string
}

/** The public keys of the service: the body of `GET /.well-known/jwks.json`. */
export interface KeySet {
  readonly keys: ReadonlyArray<PublicKey>
}

/** The keys that verify tickets: a fixed set, or a function that returns the set with the key of this id, if the service has it. */
export type TicketKeys = KeySet | ((kid: string) => KeySet | PromiseLike<KeySet>)

/** How long fetched keys are used, in milliseconds. */
const MAX_AGE_MILLIS = 600_000

/** The shortest time between two requests for keys, so that tickets with invented keys cause no more. */
const MIN_AGE_MILLIS = 10_000

/** The largest set of keys, in characters. */
const MAX_LENGTH = 65_536

/** The longest request for keys, in milliseconds. */
const TIMEOUT_MILLIS = 5_000

const isFields = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

const isText = (value: unknown): boolean => value === undefined || typeof value === "string"

const isPublicKey = (value: unknown): value is PublicKey =>
  isFields(value) &&
  typeof value["kty"] === "string" &&
  [value["crv"], value["kid"], value["x"]].every(isText)

const isKeySet = (value: unknown): value is KeySet =>
  isFields(value) && Array.isArray(value["keys"]) && value["keys"].every(isPublicKey)

/**
 * Fetches the keys from a service, by its public URL, and keeps them for ten minutes. A ticket with an unknown key causes a new request, at
 * most every ten seconds; until the first success, every ticket does. If a request fails, the keys that were fetched before are used; without
 * any, verifying throws.
 */
export const remoteKeys = (
  url: string | URL,
  options: { readonly fetch?: typeof fetch } = {}
): ((kid: string) => Promise<KeySet>) => {
  const request = options.fetch ?? fetch
  const address = `${String(url).replace(/\/+$/u, "")}/.well-known/jwks.json`
  let kept: { readonly set: KeySet; readonly at: number } | undefined
  let pending: Promise<KeySet> | undefined
  let askedAt = Number.NEGATIVE_INFINITY

  const load = async (): Promise<KeySet> => {
    const response = await request(address, {
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MILLIS)
    })
    if (!response.ok) throw new Error(`countersign/ticket: ${address} answered ${response.status}.`)
    const text = await response.text()
    const set: unknown = text.length > MAX_LENGTH ? undefined : JSON.parse(text)
    if (!isKeySet(set)) throw new Error(`countersign/ticket: ${address} is not a set of keys.`)
    kept = { set, at: Date.now() }
    return set
  }

  return async (kid) => {
    const age = kept === undefined ? Number.POSITIVE_INFINITY : Date.now() - kept.at
    const isKnown = kept?.set.keys.some((key) => key.kid === kid) === true
    if (kept !== undefined && isKnown && age < MAX_AGE_MILLIS) return kept.set
    if (kept !== undefined && pending === undefined && Date.now() - askedAt < MIN_AGE_MILLIS) return kept.set
    if (pending === undefined) {
      askedAt = Date.now()
      pending = load().finally(() => {
        pending = undefined
      })
    }
    try {
      return await pending
    } catch (error) {
      if (kept === undefined) throw error
      return kept.set
    }
  }
}
