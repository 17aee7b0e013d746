import { Option, Schema } from "effect"
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto"

/** The state of a call that a client of the stateless protocol sends back with the next request. */
const RequestState = Schema.Struct({
  session: Schema.String,
  step_id: Schema.String,
  /** Digest of the tool and its arguments. */
  digest: Schema.String,
  /** Digest of the definition of the tool that the call is decided under. */
  definition: Schema.String,
  /** The number of requests of the call that were sent to the server. */
  leg: Schema.Int,
  /** The state that the server gave with its own question. */
  upstream: Schema.NullOr(Schema.String)
})
export type RequestState = typeof RequestState.Type

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(RequestState))

/** Begins every token, and tells them from the tokens of the server behind the gate. */
const PREFIX = "csg1."

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Largest token: a server's own state is inside. */
const MAX_TOKEN_CHARACTERS = 1_000_000

/**
 * Seals the state of a call, so that a client can neither read nor change it, nor make one up. Gates with the same API key open each
 * other's tokens: any replica can answer the next request.
 */
export const makeStateSealer = (apiKey: string) => {
  const key = Buffer.from(hkdfSync("sha256", apiKey, "", "countersign mcp-gate request state v1", 32))
  return {
    seal: (state: RequestState): string => {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv("aes-256-gcm", key, nonce)
      const sealed = Buffer.concat([cipher.update(JSON.stringify(state), "utf8"), cipher.final()])
      return PREFIX + Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString("base64url")
    },
    /** Undefined for anything that a gate with the same key has not sealed. */
    open: (token: string): RequestState | undefined => {
      if (!token.startsWith(PREFIX) || token.length > MAX_TOKEN_CHARACTERS) return undefined
      const bytes = Buffer.from(token.slice(PREFIX.length), "base64url")
      if (bytes.byteLength < NONCE_BYTES + TAG_BYTES) return undefined
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES
      })
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
      try {
        const text = Buffer.concat([
          decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)),
          decipher.final()
        ]).toString("utf8")
        return Option.getOrUndefined(decode(text))
      } catch {
        return undefined
      }
    }
  }
}
