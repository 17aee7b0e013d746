import { Result } from "effect"
import { compilePattern, type LinearPattern } from "../../tasks/CompiledSchema/LinearPattern.ts"
import type { ExceededLimit } from "../ruleLimits.ts"

/** Size of one pattern, in steps of its program: `[a-z]+` has 4. */
const MAX_SIZE = 250

/** Faults, and size of patterns that are too large, after which no further pattern is compiled: a list can have 10,000 of them. */
const MAX_FAULTS = 20
const MAX_REFUSED_SIZE = 10_000

/** Most different patterns of a list, and their size in all. */
const MAX_PATTERNS = 500
const MAX_TOTAL_SIZE = 20_000

/** A pattern that cannot be used, with its place. */
export interface PatternFault {
  readonly pointer: string
  readonly detail: string
}

/** Compiles the patterns of one list of rules: equal patterns once, with one fault for all of them. */
export interface PatternCompiler {
  /** Undefined if the pattern cannot be used; the fault is noted under the pointer. */
  readonly compile: (pattern: string, pointer: string) => LinearPattern | undefined
  readonly faults: ReadonlyArray<PatternFault>
  /** Size of all patterns together. */
  readonly size: () => number
  /** The limit of a list that its patterns exceed. */
  readonly exceeded: () => ExceededLimit | undefined
}

export const makePatternCompiler = (): PatternCompiler => {
  /** Undefined: the pattern cannot be used. */
  const compiled = new Map<string, LinearPattern | undefined>()
  let patterns = 0
  const faults: Array<PatternFault> = []
  let size = 0
  let refusedSize = 0
  let exceeded: ExceededLimit | undefined
  return {
    faults,
    size: () => size,
    exceeded: () => exceeded,
    compile: (pattern, pointer) => {
      if (compiled.has(pattern)) return compiled.get(pattern)
      // The rest of a list that is refused anyway is not compiled.
      if (exceeded !== undefined || faults.length === MAX_FAULTS || refusedSize > MAX_REFUSED_SIZE)
        return undefined
      const result = compilePattern(pattern)
      compiled.set(pattern, undefined)
      if (Result.isFailure(result)) {
        faults.push({ pointer, detail: `${result.failure}.` })
        return undefined
      }
      if (result.success.size > MAX_SIZE) {
        const detail = `The pattern is too large: ${result.success.size} steps, at most ${MAX_SIZE}. Shorten counts such as \`{1,200}\`.`
        faults.push({ pointer, detail })
        refusedSize += result.success.size
        return undefined
      }
      compiled.set(pattern, result.success)
      size += result.success.size
      if (++patterns > MAX_PATTERNS) {
        exceeded = {
          pointer,
          detail: `Expected at most ${MAX_PATTERNS} different patterns in all rules together.`
        }
      } else if (size > MAX_TOTAL_SIZE) {
        exceeded = {
          pointer,
          detail: `The patterns are too large together: at most ${MAX_TOTAL_SIZE} steps. Shorten counts such as \`{1,200}\`.`
        }
      }
      return result.success
    }
  }
}
