import { Effect } from "effect"
import { InvalidInput } from "../../../api/Problems.ts"
import type { KnownValues } from "../../../domain/redaction/Redaction.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { redactionWarning, redactObject } from "../redactJson.ts"
import { checkExamples, type TaskSchemas } from "./checkExamples.ts"

/** Maximum number of fields that a warning names. */
const MAX_POINTERS = 20

/** An example's content. */
interface ExampleContent {
  readonly input: JsonObject
  readonly answer: JsonObject
}

/** An example without protected values, and the fields that they were removed from. */
export interface RedactedExample<E extends ExampleContent> {
  readonly example: E
  readonly count: number
  readonly pointers: ReadonlyArray<string>
}

/** Removes protected values from an example. `at` is its JSON pointer in the request or line. */
export const redactExample = Effect.fnUntraced(function* <E extends ExampleContent>(
  example: E,
  known: KnownValues,
  at: string
) {
  const input = yield* redactObject(example.input, known, `${at}/input`)
  const answer = yield* redactObject(example.answer, known, `${at}/answer`)
  const count = input.count + answer.count
  const redacted: RedactedExample<E> = {
    example: count === 0 ? example : { ...example, input: input.value, answer: answer.value },
    count,
    pointers: [...input.pointers, ...answer.pointers]
  }
  return redacted
})

/**
 * Removes protected values from the examples of a request before they are stored, and validates the changed ones again, so that the stored
 * examples match the task's schemas without them. `warning` names the fields; it is `undefined` if nothing was removed.
 */
export const redactExamples = Effect.fnUntraced(function* <E extends ExampleContent>(
  schemas: TaskSchemas,
  examples: ReadonlyArray<E>,
  known: KnownValues
) {
  const redacted = yield* Effect.forEach(examples, (example, index) =>
    redactExample(example, known, `#/examples/${index}`)
  )
  const count = redacted.reduce((sum, one) => sum + one.count, 0)
  const stored = redacted.map(({ example }) => example)
  if (count === 0) return { examples: stored, warning: undefined }
  yield* checkExamples(schemas, stored).pipe(
    Effect.mapError(
      ({ errors }) =>
        new InvalidInput({
          detail:
            "A protected value was removed, and an example does not match the task's schemas without it. Send an example value in its place.",
          ...(errors === undefined ? {} : { errors })
        })
    )
  )
  const pointers = redacted.flatMap((one) => one.pointers).slice(0, MAX_POINTERS)
  return { examples: stored, warning: redactionWarning({ count, pointers }) }
})
