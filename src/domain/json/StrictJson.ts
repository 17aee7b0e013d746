import { JsonPointer, Result } from "effect"

/**
 * What is wrong with a JSON text that `JSON.parse` takes, and that must not get further:
 *
 * - `too_deep`: nesting over the limit; `JSON.stringify` of a deep value overflows the stack
 * - `nul`: U+0000 in a text or a name; the store takes it nowhere
 * - `duplicate_key`: two members of one name; readers differ in which of them counts (RFC 8259, 4)
 * - `number_out_of_range`: a number that as a double is infinite or nothing, such as `1e400`
 * - `number_too_precise`: one that as a double is another, such as `9007199254740993` (RFC 7493, 2.2): two that differ would pass
 *   for one
 * - `lone_surrogate`: half of a pair, which has no UTF-8 and no canonical form
 */
export type JsonProblem =
  "too_deep" | "nul" | "duplicate_key" | "number_out_of_range" | "number_too_precise" | "lone_surrogate"

/** The first thing wrong. `pointer` is a JSON Pointer in URI fragment form; of a name at fault, that of its object. */
export interface JsonFault {
  readonly problem: JsonProblem
  readonly pointer: string
  readonly detail: string
}

export interface ScanOptions {
  /** Arrays and objects that may stand in one another. Default 64. */
  readonly maxDepth?: number | undefined
}

const DEFAULT_MAX_DEPTH = 64

/** Longest pointer that is given. Past it the pointer is that of the closest ancestor that fits. */
const MAX_POINTER_LENGTH = 1024

/** Digits of which every double keeps as many, whatever they are; and the most that tell two doubles apart. */
const KEPT_DIGITS = 15
const TELLING_DIGITS = 17

/** Names of one object that are compared one by one before a set is made for them: most objects have fewer. */
const FEW_KEYS = 8

const QUOTE = 0x22
const BACKSLASH = 0x5c

/**
 * Scans for everything that {@link JsonProblem} lists. It neither recurses nor takes more than linear time, and does not judge syntax:
 * of a text that is no JSON it may say anything, without throwing, and `JSON.parse` refuses it next.
 */
export const scan = (text: string, options: ScanOptions = {}): Result.Result<void, JsonFault> =>
  new Scanner(text, options.maxDepth ?? DEFAULT_MAX_DEPTH).run()

const mayHoldNul = (text: string): boolean => text.includes("\\u0000") || text.includes("\0")

/** The closing quote of the string that opens at `start`; -1 where there is none. */
const closingQuote = (text: string, start: number): number => {
  let end = text.indexOf('"', start + 1)
  // A quote after an odd number of backslashes is escaped. Each run of backslashes stands before one quote only, so that
  // counting them stays linear.
  while (end !== -1 && text.charCodeAt(end - 1) === BACKSLASH) {
    let run = 1
    while (text.charCodeAt(end - 1 - run) === BACKSLASH) run++
    if (run % 2 === 0) break
    end = text.indexOf('"', end + 1)
  }
  return end
}

/** An array or object that is open: where in it the walk is, and the names that it had so far. */
class OpenContainer {
  readonly isArray: boolean
  index = 0
  key = ""
  #few: Array<string> = []
  #many: Set<string> | undefined

  constructor(isArray: boolean) {
    this.isArray = isArray
  }

  /** Enters the member of this name; false where there was one. */
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

class Scanner {
  readonly #text: string
  readonly #maxDepth: number
  readonly #stack: Array<OpenContainer> = []
  /** Whether any text or name may hold NUL or a lone surrogate. If not, none is looked into. */
  readonly #suspect: boolean
  /** The first backslash at or after the string that was looked at last. */
  #nextBackslash = -1

  constructor(text: string, maxDepth: number) {
    this.#text = text
    this.#maxDepth = maxDepth
    this.#suspect = mayHoldNul(text) || /\\u[dD][89a-fA-F]/.test(text) || !text.isWellFormed()
  }

  run(): Result.Result<void, JsonFault> {
    const text = this.#text
    const stack = this.#stack
    let nameComes = false
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      const top = stack[stack.length - 1]
      if (code === QUOTE) {
        const end = closingQuote(text, at)
        if (end === -1) return Result.void
        const isName = nameComes && top !== undefined && !top.isArray
        // A text that is not looked into is not even cut out.
        if (isName || this.#suspect) {
          const raw = text.slice(at + 1, end)
          const value = this.#unescape(raw, at, end)
          if (value === undefined) return Result.void
          const problem = this.#suspect ? problemOf(value) : undefined
          if (problem !== undefined) return this.#fault(problem, isName ? stack.length - 1 : stack.length)
          if (isName) {
            nameComes = false
            if (!top.enter(value)) return this.#fault("duplicate_key", stack.length)
          }
        }
        at = end
      } else if (code === 0x2c) {
        if (top?.isArray === true) top.index++
        else nameComes = true
      } else if (code === 0x5b || code === 0x7b) {
        if (stack.length === this.#maxDepth) return this.#fault("too_deep", stack.length)
        nameComes = code === 0x7b
        stack.push(new OpenContainer(!nameComes))
      } else if (code === 0x5d || code === 0x7d) {
        stack.pop()
        nameComes = false
      } else if (code === 0x2d || isDigit(code)) {
        const end = numberEnd(text, at + 1)
        const problem = numberProblem(text, at, end)
        if (problem !== undefined) return this.#fault(problem, stack.length)
        at = end - 1
      } else if (code === 0) {
        return this.#fault("nul", stack.length)
      }
    }
    return Result.void
  }

  /** What a string stands for; undefined where it is no JSON string. Backslashes are looked for once for the whole text. */
  #unescape(raw: string, start: number, end: number): string | undefined {
    if (this.#nextBackslash < start) {
      const next = this.#text.indexOf("\\", start)
      this.#nextBackslash = next === -1 ? this.#text.length : next
    }
    if (this.#nextBackslash > end) return raw
    // Raw control characters are no JSON, and JSON.parse would not say that NUL is the one that is here.
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

  /** The pointer through the outermost `depth` frames. */
  #pointer(depth: number): string {
    let pointer = "#"
    for (const frame of this.#stack.slice(0, depth)) {
      // Cut before it is encoded: a name may be as long as the body.
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
        return `The nesting is deeper than ${this.#maxDepth} levels`
      case "nul":
        return "A text holds the character U+0000, which cannot be stored"
      case "duplicate_key":
        return "The name comes twice in its object"
      case "number_out_of_range":
        return "The number is beyond the range of a double"
      case "number_too_precise":
        return "The number has more digits than a double keeps; send it as a text"
      case "lone_surrogate":
        return "A text holds half of a surrogate pair"
    }
  }
}

const problemOf = (value: string): "nul" | "lone_surrogate" | undefined => {
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
 * What is lost when a number's text becomes a double. Whole numbers must stay what they are; fractions may be written with the 17
 * digits that many programs print. What is no number at all is not judged here.
 */
const numberProblem = (text: string, start: number, end: number): JsonProblem | undefined => {
  // No text is shorter than `9e308` and leaves the range.
  if (end - start < 5) return undefined
  const raw = text.slice(start, end)
  if (raw.length <= KEPT_DIGITS && !/[eE]/.test(raw)) return undefined
  const decimal = decimalOf(raw)
  if (decimal === undefined || decimal.digits === "") return undefined
  const value = Number(raw)
  if (value === 0 || !Number.isFinite(value)) return "number_out_of_range"
  if (decimal.digits.length > TELLING_DIGITS) return "number_too_precise"
  const kept = decimalOf(String(value))
  if (kept?.digits === decimal.digits && kept.exponent === decimal.exponent) return undefined
  return decimal.exponent < 0 ? undefined : "number_too_precise"
}

const numberParts = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/** A number as digits without a zero at either end, times a power of ten; no digits: zero. Undefined: it is no number. */
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
