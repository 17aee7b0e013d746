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

/** Values in one of the {@link canonicalParts}: about two milliseconds of work. */
const VALUES_PER_PART = 4_096

/**
 * The text of {@link canonicalJson} in parts, so that the caller can yield to other work between them. Joined, they are
 * that text. Throws {@link NotCanonical}. It recurses into containers with many values, so the value may not be deeper
 * than a request body.
 */
export function* canonicalParts(value: Schema.Json, valuesPerPart = VALUES_PER_PART): Generator<string> {
  if (typeof value !== "object" || value === null || countUpTo(value, valuesPerPart + 1) <= valuesPerPart) {
    yield textOf(value)
    return
  }
  const members: ReadonlyArray<Member> = isArray(value)
    ? value.map((item) => ["", item])
    : Object.entries(value).toSorted(byName)
  let before = isArray(value) ? "[" : "{"
  let together: Array<Member> = []
  let count = 0
  const partOfTogether = (): string => {
    const container = isArray(value) ? together.map(([, item]) => item) : Object.fromEntries(together)
    const part = before + textOf(container).slice(1, -1)
    before = ","
    together = []
    count = 0
    return part
  }
  for (const member of members) {
    const [name, item] = member
    const size = countUpTo(item, valuesPerPart + 1)
    if (together.length > 0 && count + size > valuesPerPart) yield partOfTogether()
    if (size <= valuesPerPart) {
      together.push(member)
      count += size
      continue
    }
    yield isArray(value) ? before : `${before}${textOf(name)}:`
    before = ","
    yield* canonicalParts(item, valuesPerPart)
  }
  if (together.length > 0) yield partOfTogether()
  yield isArray(value) ? "]" : "}"
}

/** An item of an array, or a member of an object. */
type Member = readonly [name: string, item: Schema.Json]

const byName = ([left]: Member, [right]: Member): number => (left < right ? -1 : 1)

const isArray = (value: Schema.Json): value is ReadonlyArray<Schema.Json> => Array.isArray(value)

const textOf = (value: Schema.Json): string => Result.getOrThrow(canonicalJson(value))

/** The number of values in a value, itself included, but no more than `most`. */
const countUpTo = (value: Schema.Json, most: number): number => {
  const containers: Array<Schema.Json> = [value]
  let count = 1
  for (let next = containers.pop(); next !== undefined && count < most; next = containers.pop()) {
    if (typeof next !== "object" || next === null) continue
    const items: ReadonlyArray<Schema.Json> = isArray(next) ? next : Object.values(next)
    count += items.length
    for (const item of items) if (typeof item === "object" && item !== null) containers.push(item)
  }
  return Math.min(count, most)
}
