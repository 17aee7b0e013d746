import { Predicate } from "effect"
import { MAX_TOKENS, type Usage } from "../../../domain/tasks/Provider.ts"

/**
 * The tokens in a response's usage, whatever it is: each count rounded up and limited to the column's range, and null if it is no number
 * from 0 on. `input` and `output` are the names of the counts; further names of input are added to it.
 */
export const toUsage = (
  usage: unknown,
  input: string,
  output: string,
  furtherInput: ReadonlyArray<string> = []
): Usage => {
  const first = toCount(usage, input)
  return {
    input_tokens:
      first === null
        ? null
        : Math.min(
            MAX_TOKENS,
            furtherInput.reduce((sum, name) => sum + (toCount(usage, name) ?? 0), first)
          ),
    output_tokens: toCount(usage, output)
  }
}

/** A number of tokens, rounded up and limited to the column's range; null if it is no number from 0 on. */
export const toCount = (usage: unknown, name: string): number | null => {
  const count = Predicate.hasProperty(usage, name) ? usage[name] : undefined
  return typeof count === "number" && count >= 0 ? Math.min(MAX_TOKENS, Math.ceil(count)) : null
}
