import { RE2JS, RE2JSException } from "re2js"
import { Result } from "effect"
import type { Meter } from "./Meter.ts"

/** Longest pattern, in characters. */
const MAX_LENGTH = 1_000

/** Characters times program steps per unit of work, in the engine's worst case. */
const STEPS_A_UNIT = 16

/** A regular expression that matches in time linear in the text's length (RE2), whatever the pattern. */
export interface LinearPattern {
  /** Steps of its program: 4 for `[a-z]+`, 1,002 for `\\p{L}{1000}`. Matching takes at most characters times steps. */
  readonly size: number
  readonly test: (text: string) => boolean
  /** The first match from an index on, in UTF-16 code units. */
  readonly find: (text: string, from: number) => { readonly start: number; readonly end: number } | undefined
}

/** Compiles a pattern of a schema, or fails with the reason. Look-around and back-references cannot be matched in linear time. */
export const compilePattern = (pattern: string): Result.Result<LinearPattern, string> => {
  if (pattern.length > MAX_LENGTH) return Result.fail(`The pattern is longer than ${MAX_LENGTH} characters`)
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
    return Result.succeed({
      size: compiled.programSize(),
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
