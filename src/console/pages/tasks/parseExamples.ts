/** Parsing of pasted examples: JSON Lines, or one JSON array. */
import { Result, Schema } from "effect"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { Failure } from "../../ui/Failure.ts"
import { parseJson } from "../../ui/jsonText.ts"

const GivenExample = Schema.Struct({ input: JsonObject, answer: JsonObject })
export type ParsedExample = typeof GivenExample.Type

const isExample = Schema.is(GivenExample)

const EXPECTED = 'expected an object with the objects "input" and "answer"'

/** Parses at least one example. Fails with a message that names the line or the example. */
export const parseExamples = (
  text: string
): Result.Result<readonly [ParsedExample, ...ReadonlyArray<ParsedExample>], string> => {
  const whole = parseJson(text)
  const values: Array<readonly [where: string, value: unknown]> = []
  if (Result.isSuccess(whole) && Array.isArray(whole.success)) {
    whole.success.forEach((value: unknown, index) => values.push([`Example ${index + 1}`, value]))
  } else if (Result.isSuccess(whole)) {
    values.push(["Example 1", whole.success])
  } else {
    for (const [index, line] of text.split("\n").entries()) {
      if (line.trim() === "") continue
      const value = parseJson(line)
      if (Result.isFailure(value)) return Result.fail(`Line ${index + 1}: ${value.failure}`)
      values.push([`Line ${index + 1}`, value.success])
    }
  }
  const examples: Array<ParsedExample> = []
  for (const [where, value] of values) {
    if (!isExample(value)) return Result.fail(`${where}: ${EXPECTED}`)
    // Lines of an export have further members.
    examples.push({ input: value.input, answer: value.answer })
  }
  const [first, ...others] = examples
  return first === undefined ? Result.fail("Add at least one example") : Result.succeed([first, ...others])
}

/** The first validation error of an example, with its number (from 1) and the path in it. */
export const exampleError = (failure: Failure | undefined): string | undefined => {
  for (const { detail, pointer } of failure?.errors ?? []) {
    const match = /^#\/examples\/(\d+)(.*)$/.exec(pointer)
    if (match !== null) return `Example ${Number(match[1]) + 1}, ${match[2]}: ${detail}`
  }
  return undefined
}
