import canonicalize from "canonicalize"
import { Result, Schema } from "effect"

/**
 * The value has no canonical form: it contains a lone surrogate, a number that is not finite, or something that JSON cannot represent. The
 * message names the problem and contains nothing of the value.
 */
export class NotCanonical extends Schema.TaggedError<NotCanonical>()("NotCanonical", {
  problem: Schema.String
}) {
  override get message(): string {
    return `The value has no canonical JSON form: ${this.problem}`
  }
}

/** Whether two values are equal, regardless of key order. A value without a canonical form equals nothing. */
export const isSameJson = (left: Schema.Json, right: Schema.Json): boolean => {
  const text = canonicalJson(left)
  const other = canonicalJson(right)
  return Result.isSuccess(text) && Result.isSuccess(other) && text.success === other.success
}

/**
 * Returns the canonical text of a JSON value (RFC 8785): no white space, keys ordered by UTF-16 code units, numbers as ECMAScript writes
 * them. Equal values have equal texts, regardless of key order. It does not recurse, so depth is not limited. Always succeeds for a value
 * that passed `StrictJson.scan` and `JSON.parse`.
 */
export const canonicalJson = (value: Schema.Json): Result.Result<string, NotCanonical> => {
  try {
    const text = canonicalize(value)
    return text === undefined
      ? Result.fail(new NotCanonical({ problem: "it is not a JSON value" }))
      : Result.succeed(text)
  } catch (error) {
    // The package throws plain errors with fixed sentences such as `Lone surrogate is not allowed`.
    return Result.fail(
      new NotCanonical({ problem: error instanceof Error ? error.message : "it is not a JSON value" })
    )
  }
}
