import { Effect } from "effect"
import { InvalidInput } from "../../../api/Problems.ts"
import { describeFirst } from "../../../domain/describeIssue.ts"
import type { CompiledSchema, SchemaFault, WorkBudget } from "../../../domain/tasks/CompiledSchema.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { redactFaults } from "../../../domain/redaction/Redaction/redactFaults.ts"

/** Faults in one response. */
const MAX_FAULTS = 20

/** Units of work for all examples of one request: about a tenth of a second, a second at most. */
const MAX_TOTAL_WORK = 10_000_000

/** Units of work per tick of the event loop, between which other requests run: a few milliseconds. */
const WORK_PER_TICK = 300_000

/** The compiled schemas of a task. */
export interface TaskSchemas {
  readonly inputs: CompiledSchema
  readonly answers: CompiledSchema
}

/**
 * Fails if an example does not match the task's schemas, with its first faults, or if the examples take too much work to validate. The work
 * is bounded for any input, and yields to other requests.
 */
export const checkExamples = Effect.fnUntraced(function* (
  { answers, inputs }: TaskSchemas,
  examples: Iterable<{ readonly input: JsonObject; readonly answer: JsonObject }>
) {
  const work: WorkBudget = { left: MAX_TOTAL_WORK }
  const faults: Array<SchemaFault> = []
  let yieldAt = work.left - WORK_PER_TICK
  let index = 0
  for (const { answer, input } of examples) {
    const at = `#/examples/${index++}`
    faults.push(...inputs.check(input, `${at}/input`, work), ...answers.check(answer, `${at}/answer`, work))
    if (work.left < 0) {
      return yield* new InvalidInput({
        detail: "Validating these examples in one request takes too long. Send fewer examples per request.",
        errors: [{ pointer: at, detail: "exceeds the validation limit of the request" }]
      })
    }
    if (faults.length >= MAX_FAULTS) break
    if (work.left < yieldAt) {
      yieldAt = work.left - WORK_PER_TICK
      yield* Effect.yieldNow
    }
  }
  const errors = redactFaults(faults.slice(0, MAX_FAULTS))
  if (errors.length > 0) {
    return yield* new InvalidInput({
      detail: `An example does not match the task's schemas: ${describeFirst(errors)}`,
      errors
    })
  }
})
