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

/** Work after which one of the {@link canonicalParts} ends: 1 for each value, and 1 for each name to sort. About a millisecond. */
const WORK_PER_PART = 4_096

/** Characters after which a part ends, whatever its work. About a millisecond. */
const CHARACTERS_PER_PART = 256 * 1_024

/**
 * The text of {@link canonicalJson} in parts, so that the caller can yield to other work between them. Joined, they are that text. Throws
 * {@link NotCanonical}. Each value is visited once, so all parts together cost as much as the undivided text, however deep it is nested.
 *
 * A part ends after the step that reaches a limit. Two steps are not divided: sorting the names of one object, and writing one string. With
 * the largest body of a request, of 4 MiB and 20,000 names, either takes some 30 ms at most; 19,000 short names take some 5 ms.
 *
 * The value must be a tree, as `JSON.parse` makes it, and must not change before the last part. Depth is not limited.
 */
export function* canonicalParts(value: Schema.Json, workPerPart = WORK_PER_PART): Generator<string> {
  const writer = new PartWriter(value)
  do yield writer.next(workPerPart)
  while (!writer.isComplete)
}

/** An array or object that is partly written. */
type OpenContainer =
  | { readonly items: ReadonlyArray<Schema.Json>; readonly names: undefined; index: number }
  | { readonly members: Members; readonly names: ReadonlyArray<string>; index: number }

type Members = { readonly [name: string]: Schema.Json }

/** Writes a canonical text part by part. */
class PartWriter {
  /** From the outermost to the innermost, which is written next. */
  readonly #open: Array<OpenContainer> = []
  #text = ""
  #work = 0

  constructor(value: Schema.Json) {
    this.#begin(value)
  }

  get isComplete(): boolean {
    return this.#open.length === 0
  }

  /** The next part. */
  next(maxWork: number): string {
    for (;;) {
      const innermost = this.#open.at(-1)
      if (innermost === undefined || this.#work >= maxWork || this.#text.length >= CHARACTERS_PER_PART) break
      const index = innermost.index++
      if (index === (innermost.names ?? innermost.items).length) {
        this.#text += innermost.names === undefined ? "]" : "}"
        this.#open.pop()
        continue
      }
      if (index > 0) this.#text += ","
      if (innermost.names === undefined) {
        this.#begin(innermost.items[index])
      } else {
        const name = innermost.names[index] ?? ""
        this.#text += `${textOf(name)}:`
        this.#begin(innermost.members[name])
      }
    }
    const part = this.#text
    this.#text = ""
    this.#work = 0
    return part
  }

  /** Writes a scalar, or the first character of a container. */
  #begin(value: Schema.Json | undefined): void {
    this.#work++
    if (typeof value !== "object" || value === null) {
      this.#text += textOf(value)
    } else if (isArray(value)) {
      this.#text += "["
      this.#open.push({ items: value, names: undefined, index: 0 })
    } else {
      this.#text += "{"
      // Sorts by UTF-16 code units.
      const names = Object.keys(value).toSorted()
      this.#work += names.length
      this.#open.push({ members: value, names, index: 0 })
    }
  }
}

const isArray = (value: Schema.Json): value is ReadonlyArray<Schema.Json> => Array.isArray(value)

/** The text of a string, number or literal. */
const textOf = (value: Schema.Json | undefined): string => {
  if (value === undefined) throw new NotCanonical({ problem: "it is not a JSON value" })
  return Result.getOrThrow(canonicalJson(value))
}
