import { RE2Set } from "re2js"
import { Result } from "effect"
import { compilePattern, type LinearPattern } from "../tasks/CompiledSchema/LinearPattern.ts"
import { findPersonalData, isPersonalField } from "./Redaction/findPersonalData.ts"
import { REDACTED } from "./Redaction/mark.ts"
import { mergeRanges, type TextRange } from "./Redaction/TextRange.ts"
import { normalizeText, toOriginal } from "./Redaction/TextView.ts"
import { MAX_MATCH, type PersonalData, type RedactionPattern, type RedactionRules } from "./RedactionRules.ts"

/** Maximum size of one pattern and of all patterns or exceptions together, in steps of their programs. */
const MAX_SIZE = 250
const MAX_TOTAL_SIZE = 1_000

/** Maximum size of the character classes of all patterns or exceptions together: they are compiled in one step, twice, in some 60 ms. */
const MAX_TOTAL_CLASS_SIZE = 1_000_000

/** Length of the parts in which a text is searched. */
const PART = 8 * 1024

/** Characters times program steps per part: about 50 ms in the engine's worst case. A part that takes more is redacted as a whole. */
const MAX_WORK = 16_000_000

/** Memory of the state machines of all patterns and of all exceptions of an organization, in bytes. */
const PATTERN_MEMORY = 256 * 1024
const EXCEPTION_MEMORY = 64 * 1024

/** The part of an organization's policy in the weight of caches, besides its size. */
const BASE_SIZE = 100

/** A fault of a pattern, with its place in the rules. */
export interface PatternFault {
  readonly pointer: string
  readonly detail: string
}

/** An organization's compiled redaction rules. */
export class RedactionPolicy {
  readonly #patterns: ReadonlyArray<LinearPattern>
  readonly #patternSet: RE2Set
  readonly #hasExceptions: boolean
  readonly #exceptionSet: RE2Set
  readonly #personal: ReadonlySet<PersonalData>
  /** Size of the compiled expressions, for caches: program steps and a constant. */
  readonly size: number

  constructor(
    patterns: ReadonlyArray<LinearPattern>,
    exceptions: ReadonlyArray<LinearPattern>,
    personal: ReadonlySet<PersonalData>
  ) {
    this.#patterns = patterns
    this.#patternSet = setOf(patterns, RE2Set.UNANCHORED, PATTERN_MEMORY)
    this.#hasExceptions = exceptions.length > 0
    this.#exceptionSet = setOf(exceptions, RE2Set.ANCHOR_BOTH, EXCEPTION_MEMORY)
    this.#personal = personal
    this.size = BASE_SIZE + totalSize(patterns) + totalSize(exceptions)
  }

  /** Whether there is anything to search for. */
  get isEmpty(): boolean {
    return this.#patterns.length === 0 && this.#personal.size === 0
  }

  /** Whether a value that would be replaced stays. */
  isException(value: string): boolean {
    return this.#hasExceptions && value.length <= MAX_MATCH && this.#exceptionSet.match(value).length > 0
  }

  /** Whether a whole field is personal data by its name. */
  isPersonalField(name: string, text: string): boolean {
    return this.#personal.size > 0 && isPersonalField(name, text, this.#personal)
  }

  /**
   * Finds values in a text of any length. Invisible characters and escapes are ignored. Yields after each part, so that
   * the caller can yield to other work.
   */
  *find(text: string): Generator<void, ReadonlyArray<TextRange>> {
    if (this.isEmpty) return []
    const found: Array<TextRange> = []
    for (let start = 0; start === 0 || start + MAX_MATCH < text.length; start += PART - MAX_MATCH) {
      if (start > 0) yield
      const part = text.slice(start, start + PART)
      const view = normalizeText(part) ?? { text: part }
      for (const range of withoutMarks(view.text, this.#findInPart(view.text))) {
        const original = toOriginal(view, range)
        found.push({ start: original.start + start, end: original.end + start })
      }
    }
    return mergeRanges(found)
  }

  #findInPart(text: string): ReadonlyArray<TextRange> {
    const found = [...findPersonalData(text, this.#personal)]
    if (this.#patterns.length === 0) return found
    let work = text.length * this.size
    // One pass for all patterns, by a state machine of bounded memory. Each pattern that matches then finds its places.
    const matching = new Set(this.#patternSet.match(text))
    for (const pattern of this.#patterns.filter((_, index) => matching.has(index))) {
      for (let from = 0; from < text.length;) {
        work += (text.length - from) * pattern.size
        if (work > MAX_WORK) return [{ start: 0, end: text.length }]
        const match = pattern.find(text, from)
        if (match === undefined) break
        if (match.end > match.start) found.push(match)
        from = Math.max(match.end, from + 1)
      }
    }
    return found
  }
}

const setOf = (expressions: ReadonlyArray<LinearPattern>, anchor: number, memory: number): RE2Set => {
  const set = new RE2Set(anchor, 0, memory)
  for (const { source } of expressions) set.add(source)
  return set
}

const totalSize = (expressions: ReadonlyArray<LinearPattern>): number =>
  expressions.reduce((total, { size }) => total + size, 0)

/** Finds nothing and excepts nothing. */
export const noPolicy = new RedactionPolicy([], [], new Set())

/** Removes earlier redactions from the ranges, so that redacting twice changes nothing. */
const withoutMarks = (text: string, ranges: ReadonlyArray<TextRange>): ReadonlyArray<TextRange> => {
  if (ranges.length === 0 || !text.includes(REDACTED)) return ranges
  const left: Array<TextRange> = []
  for (const { end, start } of mergeRanges(ranges)) {
    let from = start
    // A mark may begin before the range.
    for (
      let mark = text.indexOf(REDACTED, Math.max(0, start - REDACTED.length + 1));
      mark !== -1 && mark < end;
      mark = text.indexOf(REDACTED, mark + REDACTED.length)
    ) {
      if (mark > from) left.push({ start: from, end: mark })
      from = Math.max(from, mark + REDACTED.length)
    }
    if (from < end) left.push({ start: from, end })
  }
  return left
}

/** Compiles rules, or returns every fault with its place. */
export const compilePolicy = (
  rules: RedactionRules
): Result.Result<RedactionPolicy, ReadonlyArray<PatternFault>> => {
  const faults: Array<PatternFault> = []
  const patterns = compileAll(rules.patterns, "#/patterns", faults)
  const exceptions = compileAll(rules.exceptions, "#/exceptions", faults)
  return faults.length > 0
    ? Result.fail(faults)
    : Result.succeed(new RedactionPolicy(patterns, exceptions, new Set(rules.personal_data)))
}

const compileAll = (
  list: ReadonlyArray<RedactionPattern>,
  at: string,
  faults: Array<PatternFault>
): ReadonlyArray<LinearPattern> => {
  const compiled: Array<LinearPattern> = []
  let classSize = 0
  for (const [index, { pattern }] of list.entries()) {
    const result = compilePattern(pattern)
    if (Result.isFailure(result)) {
      faults.push({ pointer: `${at}/${index}/pattern`, detail: `${result.failure}.` })
      continue
    }
    const { size, test } = result.success
    compiled.push(result.success)
    classSize += result.success.classSize
    if (classSize > MAX_TOTAL_CLASS_SIZE) {
      faults.push({
        pointer: at,
        detail:
          "The character classes of the expressions are too large together. Use fewer wide ranges with the flag `i`, and fewer Unicode properties."
      })
      break
    }
    // On an empty text, a match is empty.
    if (test("")) {
      faults.push({
        pointer: `${at}/${index}/pattern`,
        detail: "The expression matches an empty text, so it would match everywhere."
      })
    } else if (size > MAX_SIZE) {
      faults.push({
        pointer: `${at}/${index}/pattern`,
        detail: `The expression is too large: ${size} steps, at most ${MAX_SIZE}. Shorten counts such as \`{1,200}\`.`
      })
    }
  }
  if (totalSize(compiled) > MAX_TOTAL_SIZE) {
    faults.push({
      pointer: at,
      detail: `The expressions are too large together: ${totalSize(compiled)} steps, at most ${MAX_TOTAL_SIZE}. Shorten counts such as \`{1,200}\`.`
    })
  }
  return compiled
}
