/** Examples as they are pasted: JSON Lines, or one JSON array. */
import { Result, Schema } from "effect"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { Failure } from "../../ui/Failure.ts"
import { parseJson } from "../../ui/jsonText.ts"

const GivenExample = Schema.Struct({ input: JsonObject, answer: JsonObject })
export type ParsedExample = typeof GivenExample.Type

const isExample = Schema.is(GivenExample)

const FORM = 'an object with "input" and "answer", each an object'

/** The examples of a text, at least one; or what is wrong with which. */
export const parseExamples = (
  text: string
): Result.Result<readonly [ParsedExample, ...ReadonlyArray<ParsedExample>], string> => {
  const whole = parseJson(text)
  const given: Array<readonly [where: string, value: unknown]> = []
  if (Result.isSuccess(whole) && Array.isArray(whole.success)) {
    whole.success.forEach((value: unknown, index) => given.push([`Example ${index + 1}`, value]))
  } else if (Result.isSuccess(whole)) {
    given.push(["It", whole.success])
  } else {
    for (const [index, line] of text.split("\n").entries()) {
      if (line.trim() === "") continue
      const value = parseJson(line)
      if (Result.isFailure(value)) return Result.fail(`Line ${index + 1}: ${value.failure}`)
      given.push([`Line ${index + 1}`, value.success])
    }
  }
  const examples: Array<ParsedExample> = []
  for (const [where, value] of given) {
    if (!isExample(value)) return Result.fail(`${where} is not ${FORM}`)
    examples.push(value)
  }
  const [first, ...others] = examples
  return first === undefined ? Result.fail("There is no example yet") : Result.succeed([first, ...others])
}

/** What the service has against an example, in words: which one, and where in it. */
export const exampleError = (failure: Failure | undefined): string | undefined => {
  for (const { detail, pointer } of failure?.errors ?? []) {
    const found = /^#\/examples\/(\d+)(.*)$/.exec(pointer)
    if (found !== null) return `Example ${Number(found[1]) + 1}, ${found[2]}: ${detail}`
  }
  return undefined
}
