import { RE2JS, RE2JSException } from "re2js"
import { Result } from "effect"
import type { Meter } from "./Meter.ts"

/** The longest pattern, in characters. */
const MAX_LENGTH = 1_000

/** Characters times steps of the program that are one unit of work, in the worst case that the engine has. */
const STEPS_A_UNIT = 16

/** A regular expression that is matched in time linear in the text (RE2), whatever the pattern. */
export interface LinearPattern {
  /** Steps of its program: `[a-z]+` has 4, `\\p{L}{1000}` 1,002. Matching takes characters times steps at worst. */
  readonly size: number
  readonly test: (text: string) => boolean
}

/** Compiles a pattern of a schema; why it cannot be one, where it cannot. Look-around and back-references have no linear match. */
export const compilePattern = (pattern: string): Result.Result<LinearPattern, string> => {
  if (pattern.length > MAX_LENGTH) return Result.fail(`A pattern has ${MAX_LENGTH} characters at most`)
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
    return Result.succeed({ size: compiled.programSize(), test: (text) => compiled.test(text) })
  } catch (error) {
    return Result.fail(
      error instanceof RE2JSException
        ? "The pattern is not one that can be matched in linear time (RE2 syntax: no look-around, no back-references, counts to 1000)"
        : "The pattern is not a regular expression"
    )
  }
}

/** The same pattern, charging what it matches to a meter. */
export const metered = (pattern: string, { size, test }: LinearPattern, meter: Meter) => ({
  test: (text: string): boolean => {
    meter.spend(((text.length + 1) * size) / STEPS_A_UNIT)
    return test(text)
  },
  // The validator tells patterns apart by their text.
  toString: () => pattern
})
