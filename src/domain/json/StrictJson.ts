import { JsonPointer, Result } from "effect"

/**
 * A fault in a JSON text that `JSON.parse` accepts and this service rejects:
 *
 * - `too_deep`: nesting over the limit; `JSON.stringify` of a deep value overflows the stack
 * - `nul`: U+0000 in a text or a name; PostgreSQL cannot store it
 * - `duplicate_key`: two members of the same name; parsers differ in which one counts (RFC 8259, 4)
 * - `number_out_of_range`: a number that overflows or underflows a double, such as `1e400`
 * - `number_too_precise`: a number that changes when read as a double, such as `9007199254740993` (RFC 7493, 2.2): two different numbers
 *   would become equal
 * - `lone_surrogate`: half of a surrogate pair, which has no UTF-8 and no canonical form
 * - `too_many_values`: more values than the limit, at any depth; each costs time in every later step
 * - `too_many_names`: more different member names than the limit; the engine interns each one, at twenty times the cost of a repeated name
 */
export type JsonProblem =
  | "too_deep"
  | "nul"
  | "duplicate_key"
  | "number_out_of_range"
  | "number_too_precise"
  | "lone_surrogate"
  | "too_many_values"
  | "too_many_names"

/** The first fault. `pointer` is a JSON Pointer in URI fragment form; for a fault in a name it points to the object. */
export interface JsonFault {
  readonly problem: JsonProblem
  readonly pointer: string
  readonly detail: string
}

export interface ScanOptions {
  /** Maximum nesting of arrays and objects. Default 64. */
  readonly maxDepth?: number | undefined
  /** Maximum number of values: texts, numbers, literals, arrays and objects. Default: no limit. */
  readonly maxValues?: number | undefined
  /** Maximum number of different member names in the whole text. Default: no limit. */
  readonly maxNames?: number | undefined
  /** Whether only these limits are checked, for texts that must not be lost because of another fault. Default false. */
  readonly limitsOnly?: boolean | undefined
}

const DEFAULT_MAX_DEPTH = 64

/**
 * Limits for texts from outside, within which no step that cannot be interrupted (`JSON.parse`, decoding, `JSON.stringify`) takes more than
 * some 30 ms. Records of 40 bytes a value reach the 4 MiB of the largest body first.
 */
export const contentLimits = { maxValues: 100_000, maxNames: 20_000 } satisfies ScanOptions

/** The shortest member is `"a":1` and a comma. A text that is too short for more names than the limit is not searched for them. */
const SHORTEST_MEMBER = 6

/** Maximum length of a pointer. A longer one is replaced by the pointer of the closest ancestor that fits. */
const MAX_POINTER_LENGTH = 1024

/** Digits that every double preserves, and the most digits needed to distinguish two doubles. */
const PRESERVED_DIGITS = 15
const DISTINGUISHING_DIGITS = 17

/** Names of one object that are compared linearly before a set is created: most objects have fewer. */
const FEW_KEYS = 8

const QUOTE = 0x22
const BACKSLASH = 0x5c

/**
 * Scans for every {@link JsonProblem}, without recursion and in linear time. It does not check syntax: for a text that is not JSON the
 * result is arbitrary but never throws, and `JSON.parse` rejects the text afterwards.
 */
export const scan = (text: string, options: ScanOptions = {}): Result.Result<void, JsonFault> =>
  new Scanner(text, options).advance(Number.POSITIVE_INFINITY) ?? Result.void

/** A scan that can be paused, for long texts. */
export interface JsonScan {
  /** Scans up to `tokens` further tokens. Undefined: not finished. A token costs at most a microsecond, plus the length of its string. */
  readonly advance: (tokens: number) => Result.Result<void, JsonFault> | undefined
}

/** Starts a {@link scan} in parts, so that the caller can yield to other work between them. */
export const startScan = (text: string, options: ScanOptions = {}): JsonScan => new Scanner(text, options)

const mayContainNul = (text: string): boolean => text.includes("\\u0000") || text.includes("\0")

/** Returns the index of the closing quote of the string that opens at `start`; -1 if there is none. */
const closingQuote = (text: string, start: number): number => {
  let end = text.indexOf('"', start + 1)
  // A quote after an odd number of backslashes is escaped. Each run of backslashes precedes one quote only, so counting stays linear.
  while (end !== -1 && text.charCodeAt(end - 1) === BACKSLASH) {
    let run = 1
    while (text.charCodeAt(end - 1 - run) === BACKSLASH) run++
    if (run % 2 === 0) break
    end = text.indexOf('"', end + 1)
  }
  return end
}

/** An open array or object: the current position in it and the names so far. */
class OpenContainer {
  readonly isArray: boolean
  index = 0
  key = ""
  #few: Array<string> = []
  #many: Set<string> | undefined

  constructor(isArray: boolean) {
    this.isArray = isArray
  }

  /** Enters a member; false if the object already has one of this name. */
  enter(key: string): boolean {
    this.key = key
    if (this.#many !== undefined) {
      const size = this.#many.size
      return this.#many.add(key).size > size
    }
    if (this.#few.includes(key)) return false
    if (this.#few.push(key) > FEW_KEYS) this.#many = new Set(this.#few)
    return true
  }
}

class Scanner implements JsonScan {
  readonly #text: string
  readonly #maxDepth: number
  readonly #maxValues: number
  readonly #maxNames: number
  readonly #limitsOnly: boolean
  readonly #stack: Array<OpenContainer> = []
  /** The different names so far; undefined if the text is too short for too many. */
  readonly #names: Set<string> | undefined
  #values = 0
  /** The next character. */
  #at = 0
  #isNameNext = false
  /** Whether any text or name may contain NUL or a lone surrogate. If not, strings are skipped unread. */
  readonly #suspect: boolean
  /** The first backslash at or after the string read last. */
  #nextBackslash = -1

  constructor(text: string, { limitsOnly = false, maxDepth, maxNames, maxValues }: ScanOptions) {
    this.#text = text
    this.#maxDepth = maxDepth ?? DEFAULT_MAX_DEPTH
    this.#maxValues = maxValues ?? Number.POSITIVE_INFINITY
    this.#maxNames = maxNames ?? Number.POSITIVE_INFINITY
    this.#names = text.length > this.#maxNames * SHORTEST_MEMBER ? new Set() : undefined
    this.#limitsOnly = limitsOnly
    this.#suspect =
      !limitsOnly && (mayContainNul(text) || /\\u[dD][89a-fA-F]/.test(text) || !text.isWellFormed())
  }

  advance(tokens: number): Result.Result<void, JsonFault> | undefined {
    const text = this.#text
    const stack = this.#stack
    let isNameNext = this.#isNameNext
    let at = this.#at
    for (let left = tokens; at < text.length; at++, left--) {
      if (left <= 0) {
        this.#at = at
        this.#isNameNext = isNameNext
        return undefined
      }
      const code = text.charCodeAt(at)
      const top = stack[stack.length - 1]
      if (code === QUOTE) {
        const end = closingQuote(text, at)
        if (end === -1) return Result.void
        const isName = isNameNext && top !== undefined && !top.isArray
        if (!isName && this.#isExcessValue()) return this.#fault("too_many_values", stack.length)
        // A string that need not be read is not sliced either.
        if (isName || this.#suspect) {
          const raw = text.slice(at + 1, end)
          const value = this.#unescape(raw, at, end)
          if (value === undefined) return Result.void
          const problem = this.#suspect ? stringProblem(value) : undefined
          if (problem !== undefined) return this.#fault(problem, isName ? stack.length - 1 : stack.length)
          if (isName) {
            isNameNext = false
            if (this.#limitsOnly) top.key = value
            else if (!top.enter(value)) return this.#fault("duplicate_key", stack.length)
            if (this.#names !== undefined && this.#names.add(value).size > this.#maxNames) {
              return this.#fault("too_many_names", stack.length)
            }
          }
        }
        at = end
      } else if (code === 0x2c) {
        if (top?.isArray === true) top.index++
        else isNameNext = true
      } else if (code === 0x5b || code === 0x7b) {
        if (this.#isExcessValue()) return this.#fault("too_many_values", stack.length)
        if (stack.length === this.#maxDepth) return this.#fault("too_deep", stack.length)
        isNameNext = code === 0x7b
        stack.push(new OpenContainer(!isNameNext))
      } else if (code === 0x5d || code === 0x7d) {
        stack.pop()
        isNameNext = false
      } else if (code === 0x2d || isDigit(code)) {
        if (this.#isExcessValue()) return this.#fault("too_many_values", stack.length)
        const end = numberEnd(text, at + 1)
        const problem = this.#limitsOnly ? undefined : numberProblem(text, at, end)
        if (problem !== undefined) return this.#fault(problem, stack.length)
        at = end - 1
      } else if (code === 0x6e || code === 0x74 || code === 0x66) {
        // The first letter of `null`, `true` or `false`, which occurs once in them.
        if (this.#isExcessValue()) return this.#fault("too_many_values", stack.length)
      } else if (code === 0) {
        return this.#fault("nul", stack.length)
      }
    }
    this.#at = at
    return Result.void
  }

  /** Counts a value; true if it is one too many. */
  #isExcessValue(): boolean {
    return ++this.#values > this.#maxValues
  }

  /** Decodes a string; undefined if it is not a JSON string. Backslashes are searched once for the whole text. */
  #unescape(raw: string, start: number, end: number): string | undefined {
    if (this.#nextBackslash < start) {
      const next = this.#text.indexOf("\\", start)
      this.#nextBackslash = next === -1 ? this.#text.length : next
    }
    if (this.#nextBackslash > end) return raw
    // Raw control characters are not JSON, and the error of `JSON.parse` would not say that this one is NUL.
    if (raw.includes("\0")) return "\0"
    try {
      return String(JSON.parse(`"${raw}"`))
    } catch {
      return undefined
    }
  }

  #fault(problem: JsonProblem, depth: number): Result.Result<void, JsonFault> {
    return Result.fail({ problem, pointer: this.#pointer(depth), detail: this.#detail(problem) })
  }

  /** Returns the pointer through the outermost `depth` containers. */
  #pointer(depth: number): string {
    let pointer = "#"
    for (const frame of this.#stack.slice(0, depth)) {
      // Truncated before encoding: a name may be as long as the body.
      const token = frame.isArray
        ? String(frame.index)
        : frame.key.slice(0, MAX_POINTER_LENGTH).toWellFormed()
      const longer = pointer + JsonPointer.formatUriFragment([token]).slice(1)
      if (frame.key.length > MAX_POINTER_LENGTH || longer.length > MAX_POINTER_LENGTH) break
      pointer = longer
    }
    return pointer
  }

  #detail(problem: JsonProblem): string {
    switch (problem) {
      case "too_deep":
        return `Nesting exceeds ${this.#maxDepth} levels`
      case "nul":
        return "A string contains U+0000, which cannot be stored"
      case "duplicate_key":
        return "The object has this name twice"
      case "number_out_of_range":
        return "The number is outside the range of a double"
      case "number_too_precise":
        return "The number has more digits than a double preserves; send it as a string"
      case "lone_surrogate":
        return "A string contains half of a surrogate pair"
      case "too_many_values":
        return `The first value beyond the limit of ${this.#maxValues}`
      case "too_many_names":
        return `The first name beyond the limit of ${this.#maxNames} different names`
    }
  }
}

const stringProblem = (value: string): "nul" | "lone_surrogate" | undefined => {
  if (value.includes("\0")) return "nul"
  return value.isWellFormed() ? undefined : "lone_surrogate"
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39

const numberEnd = (text: string, start: number): number => {
  let end = start
  for (; end < text.length; end++) {
    const code = text.charCodeAt(end)
    // digits, `.`, `e`, `E`, `+`, `-`
    if (!(isDigit(code) || code === 0x2e || (code | 0x20) === 0x65 || code === 0x2b || code === 0x2d)) break
  }
  return end
}

/**
 * Returns the problem of a number that loses information as a double. Integers must stay exact; fractions may have the 17 digits that many
 * programs print. Text that is not a number has no problem here.
 */
const numberProblem = (text: string, start: number, end: number): JsonProblem | undefined => {
  // The shortest text that leaves the range is `9e308`.
  if (end - start < 5) return undefined
  const raw = text.slice(start, end)
  if (raw.length <= PRESERVED_DIGITS && !/[eE]/.test(raw)) return undefined
  const decimal = decimalOf(raw)
  if (decimal === undefined || decimal.digits === "") return undefined
  const value = Number(raw)
  if (value === 0 || !Number.isFinite(value)) return "number_out_of_range"
  if (decimal.digits.length > DISTINGUISHING_DIGITS) return "number_too_precise"
  const kept = decimalOf(String(value))
  if (kept?.digits === decimal.digits && kept.exponent === decimal.exponent) return undefined
  return decimal.exponent < 0 ? undefined : "number_too_precise"
}

const numberParts = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/**
 * Parses a number into digits without leading or trailing zeros, and a power of ten; no digits for zero, undefined for text that is not a
 * number.
 */
const decimalOf = (raw: string): { readonly digits: string; readonly exponent: number } | undefined => {
  const parts = numberParts.exec(raw)
  if (parts === null) return undefined
  const [, whole = "", fraction = "", exponent = "0"] = parts
  const all = whole + fraction
  let from = 0
  let to = all.length
  while (from < to && all.charCodeAt(from) === 0x30) from++
  while (to > from && all.charCodeAt(to - 1) === 0x30) to--
  return { digits: all.slice(from, to), exponent: Number(exponent) - fraction.length + (all.length - to) }
}
