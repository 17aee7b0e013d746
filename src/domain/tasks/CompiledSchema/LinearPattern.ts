import { RE2JS, RE2JSException } from "re2js"
import { Result } from "effect"
import type { Meter } from "./Meter.ts"

/** Longest pattern, in characters. */
const MAX_LENGTH = 1_000

/**
 * Largest program that is compiled, as estimated: no use accepts one that large, and `(a?a?…){1000}` of 1,000 characters would take seconds
 * to compile.
 */
const MAX_ESTIMATED_SIZE = 20_000

/**
 * Largest character classes, as estimated: four times nearly all of Unicode, which takes some 15 ms. If case is ignored, RE2 folds their
 * code points one by one when it compiles them, and the program has one step for a class of any size.
 */
const MAX_ESTIMATED_CLASSES = 500_000

/** The first and the last code point with case. RE2 folds no range that contains both. */
const FIRST_CASED = 0x41
const LAST_CASED = 0x1e943

/** Code points that are folded in the time in which the largest Unicode property (`\PL`) is compiled. */
const PROPERTY_SIZE = 5_000

/** Characters times program steps per unit of work, in the engine's worst case. */
const STEPS_A_UNIT = 16

/** A regular expression that matches in time linear in the text's length (RE2), whatever the pattern. */
export interface LinearPattern {
  /** The pattern in RE2 syntax. */
  readonly source: string
  /** Steps of its program: 4 for `[a-z]+`, 1,002 for `\\p{L}{1000}`. Matching takes at most characters times steps. */
  readonly size: number
  /** Estimated size of its character classes, in code points: 4,000,000 take some 120 ms to compile. */
  readonly classSize: number
  readonly test: (text: string) => boolean
  /** The first match from an index on, in UTF-16 code units. */
  readonly find: (text: string, from: number) => { readonly start: number; readonly end: number } | undefined
}

/** `\s` and line ends of ECMAScript, as members of a character class in RE2 syntax; there, `\s` is ASCII and `.` matches all but `\n`. */
const SPACE = String.raw`\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}`
const NOT_SPACE = String.raw`\x00-\x08\x0E-\x1F!-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}`
const LINE_END = String.raw`\n\r\x{2028}\x{2029}`
const ANY = String.raw`\x00-\x{10FFFF}`

/**
 * A token of a pattern: characters that RE2 takes literally (`\Q…\E`), an escape, a POSIX class, a class of no or of all characters, or one
 * character.
 */
const TOKEN = /\\Q[\s\S]*?(?:\\E|$)|\\[\s\S]|\[:\^?\w+:\]|\[(?:\^|\\s\\S|\\S\\s)?\]|[\s\S]/gu

/** The usual ways to match any character, line ends too. */
const ANYTHING = new Set(["[^]", String.raw`[\s\S]`, String.raw`[\S\s]`])

/** A group that sets the flag `s`, with which `.` matches line ends too. */
const DOT_ALL = /\(\?[a-zA-Z]*s[a-zA-Z]*(?:-[a-zA-Z]*)?[:)]/u

/**
 * Rewrites the character classes of a pattern so that RE2 matches them as ECMAScript, the dialect of JSON Schema, does.
 */
const ecmaScriptClasses = (pattern: string): string => {
  const dotAll = DOT_ALL.test(pattern)
  let inClass = false
  return pattern.replaceAll(TOKEN, (token) => {
    if (inClass) {
      // In a class, `[` is an ordinary member.
      if (token === "]" || token === "[]" || ANYTHING.has(token)) inClass = false
      if (token === String.raw`\s`) return SPACE
      if (token === String.raw`\S`) return NOT_SPACE
      return token === String.raw`\b` ? String.raw`\x08` : token
    }
    switch (token) {
      case "[":
        inClass = true
        return token
      case "[]":
        return `[^${ANY}]`
      case "[^]":
        return `[${ANY}]`
      case ".":
        return dotAll ? token : `[^${LINE_END}]`
      case String.raw`\s`:
        return `[${SPACE}]`
      case String.raw`\S`:
        return `[^${SPACE}]`
      default:
        return token
    }
  })
}

/** A part of a pattern whose size is known: a literal text, a character, a class, a count, or the beginning or end of a group. */
const SIZED =
  /\\Q(?<literal>[\s\S]*?)(?:\\E|$)|\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\[\s\S]|\[\^?\]|\[(?:\[:\^?\w+:\]|\\[\s\S]|[^\]\\])*\]|\{(?<least>\d+)(?:,(?<most>\d*))?\}|(?<open>\((?:\?(?:P?<\w+>|[a-zA-Z-]*:?))?)|[\s\S]/gu

/**
 * Estimates the size of a pattern's program without compiling it. It is never less than the size, and much more only for alternatives of
 * single characters, which RE2 merges. Nested counts multiply.
 */
export const estimateSize = (pattern: string): number => {
  /** The groups around the current place: the size before the last part, and that of the last part, which a count repeats. */
  const groups = [{ before: 0, last: 0 }]
  for (const { 0: token, groups: named } of pattern.matchAll(SIZED)) {
    const { least, literal, most, open } = named ?? {}
    const group = groups.at(-1)
    if (group === undefined) break
    if (least !== undefined) {
      group.last = (group.last + 1) * Math.max(1, Number(least), Number(most ?? 0))
    } else if (token === "*" || token === "+" || token === "?") {
      group.last++
    } else {
      group.before += group.last
      group.last = 0
      if (open !== undefined) {
        groups.push({ before: 0, last: 0 })
      } else if (token === ")" && groups.length > 1) {
        groups.pop()
        const around = groups.at(-1)
        if (around !== undefined) around.last = group.before + 2
      } else {
        group.last = token === "|" ? 2 : (literal?.length ?? 1)
      }
    }
  }
  return groups.reduce((size, { before, last }) => size + before + last, 3)
}

/** A group that sets the flag `i`, with which case is ignored. */
const IGNORE_CASE = /\(\?[a-zA-Z]*i[a-zA-Z]*(?:-[a-zA-Z]*)?[:)]/u

const PROPERTY = String.raw`\\[pP](?:\{[^}]*\}|[\s\S])`
const CHARACTER = String.raw`\\x\{[^}]*\}|\\x[\da-fA-F]{2}|\\[0-7]{1,3}|\\?[\s\S]`

/** A property or the members of a class, which may have no end, and the parts in which a bracket begins no class. */
const CLASS = new RegExp(
  String.raw`\\Q[\s\S]*?(?:\\E|$)|(?<members>${PROPERTY}|\[\^?(?:\[:\^?\w+:\]|\\[\s\S]|[^\]\\])*)|\\[\s\S]`,
  "gu"
)

/** A member of a class: a named class, a property, or a character or range. */
const MEMBER = new RegExp(
  String.raw`\[:\^?\w+:\]|\\[dDsSwW]|(?<property>${PROPERTY})|(?<first>${CHARACTER})(?:-(?<last>${CHARACTER}))?`,
  "gu"
)

/**
 * Estimates how many code points are folded when a pattern in RE2 syntax is compiled. Unicode properties count with every flag.
 */
const estimateClasses = (pattern: string): number => {
  const ignoreCase = IGNORE_CASE.test(pattern)
  let size = 0
  for (const { groups: part } of pattern.matchAll(CLASS)) {
    const { members } = part ?? {}
    for (const { groups: member } of members?.replace(/^\[\^?/u, "").matchAll(MEMBER) ?? []) {
      const { first, last, property } = member ?? {}
      if (property !== undefined) size += PROPERTY_SIZE
      if (!ignoreCase || first === undefined || last === undefined) continue
      const from = codePointOf(first)
      const to = codePointOf(last)
      if (from > FIRST_CASED || to < LAST_CASED) {
        size += Math.max(0, Math.min(to, LAST_CASED) - Math.max(from, FIRST_CASED))
      }
    }
  }
  return size
}

/** The code point of a member. An escape that is not hexadecimal stands for some character of ASCII. */
const codePointOf = (character: string): number => {
  const digits = /(?<=^\\x\{?)[\da-fA-F]+/u.exec(character)?.[0]
  return digits === undefined ? (character.codePointAt(0) ?? 0) : Number.parseInt(digits, 16)
}

/** Compiles a pattern, or fails with the reason. Look-around and back-references cannot be matched in linear time. */
export const compilePattern = (pattern: string): Result.Result<LinearPattern, string> => {
  if (pattern.length > MAX_LENGTH) return Result.fail(`The pattern is longer than ${MAX_LENGTH} characters`)
  if (estimateSize(pattern) > MAX_ESTIMATED_SIZE)
    return Result.fail("The pattern is too large. Shorten counts such as `{1,200}`")
  try {
    const source = ecmaScriptClasses(RE2JS.translateRegExp(pattern))
    const classSize = estimateClasses(source)
    if (classSize > MAX_ESTIMATED_CLASSES)
      return Result.fail(
        "The character classes of the pattern are too large. Use fewer wide ranges with the flag `i`, and fewer Unicode properties"
      )
    const compiled = RE2JS.compile(source)
    return Result.succeed({
      source,
      size: compiled.programSize(),
      classSize,
      test: (text) => compiled.test(text),
      find: (text, from) => {
        const matcher = compiled.matcher(text)
        return matcher.find(from) ? { start: matcher.start(), end: matcher.end() } : undefined
      }
    })
  } catch (error) {
    return Result.fail(
      error instanceof RE2JSException
        ? "The pattern cannot be matched in linear time (RE2 syntax: no look-around, no back-references, counts up to 1000)"
        : "The pattern is not a regular expression"
    )
  }
}

/**
 * Whether a pattern is a regular expression of ECMAScript that cannot be matched in linear time: with look-around, a back-reference or a
 * count over 1,000. Generators write such patterns, which the author of a type cannot change. It is only parsed here, and never matched.
 */
export const isUnmatchable = (pattern: string): boolean =>
  pattern.length <= MAX_LENGTH &&
  estimateSize(pattern) <= MAX_ESTIMATED_SIZE * MAX_COUNT &&
  Result.isFailure(compilePattern(pattern)) &&
  isEcmaScript(pattern)

/** Counts that generators write are at most this many times RE2's limit. */
const MAX_COUNT = 100

const isEcmaScript = (pattern: string): boolean => {
  try {
    return new RegExp(pattern, "u").source !== ""
  } catch {
    return false
  }
}

/** The same pattern, which charges each match to a meter. */
export const metered = (
  pattern: string,
  { size, test }: Pick<LinearPattern, "size" | "test">,
  meter: Meter
) => ({
  test: (text: string): boolean => {
    meter.spend(((text.length + 1) * size) / STEPS_A_UNIT)
    return test(text)
  },
  // The validator distinguishes patterns by their text.
  toString: () => pattern
})
