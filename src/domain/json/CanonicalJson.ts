import canonicalize from "canonicalize"
import { Result, Schema } from "effect"

/**
 * A value has no canonical form: it holds a lone surrogate, a number that is not finite, or something that no JSON text
 * stands for. The message says which, and nothing of the value.
 */
export class NotCanonical extends Schema.TaggedError<NotCanonical>()("NotCanonical", {
  problem: Schema.String
}) {
  override get message(): string {
    return `The value has no canonical JSON form: ${this.problem}`
  }
}

/** Whether two values are the same, whatever order their keys came in. What has no canonical text is like nothing. */
export const isSameJson = (left: Schema.Json, right: Schema.Json): boolean => {
  const text = canonicalJson(left)
  const other = canonicalJson(right)
  return Result.isSuccess(text) && Result.isSuccess(other) && text.success === other.success
}

/**
 * The canonical text of a JSON value (RFC 8785): no white space, keys in the order of their UTF-16 code units, numbers as
 * ECMAScript writes them. Equal values have equal texts, whatever order their keys came in. Does not recurse, so depth is
 * no matter. What came through `StrictJson.scan` and `JSON.parse` always has one.
 */
export const canonicalJson = (value: Schema.Json): Result.Result<string, NotCanonical> => {
  try {
    const text = canonicalize(value)
    return text === undefined
      ? Result.fail(new NotCanonical({ problem: "it is no JSON value" }))
      : Result.succeed(text)
  } catch (error) {
    // The package throws plain errors with a fixed sentence, `Lone surrogate is not allowed` and its like.
    return Result.fail(
      new NotCanonical({ problem: error instanceof Error ? error.message : "it is no JSON value" })
    )
  }
}
