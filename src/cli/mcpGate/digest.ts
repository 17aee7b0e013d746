import { Result, type Schema } from "effect"
import { createHash } from "node:crypto"
import { canonicalJson } from "../../domain/json/CanonicalJson.ts"

/** SHA-256 of the canonical form of a JSON value, in hex. Throws for a value without one, such as a lone surrogate. */
export const digestOf = (value: Schema.Json): string =>
  createHash("sha256")
    .update(Result.getOrThrow(canonicalJson(value)))
    .digest("hex")
