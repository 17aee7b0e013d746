import { Effect } from "effect"
import { InvalidInput } from "../../../api/Problems.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { redactFaults } from "../../../domain/redaction/Redaction/redactFaults.ts"
import type { CompiledSchema, SchemaFault, WorkBudget } from "../../../domain/tasks/CompiledSchema.ts"

/** The most faults that one answer lists. */
const MAX_FAULTS = 20

/** Units of work that the examples of one request may take to check together: a tenth of a second or so, a second at worst. */
const MAX_TOTAL_WORK = 10_000_000

/** Units after which other requests have their turn: a few milliseconds. */
const WORK_PER_TICK = 300_000

/** The shapes that examples of a task fit. */
export interface TaskSchemas {
  readonly inputs: CompiledSchema
  readonly answers: CompiledSchema
}

/**
 * Refuses examples of which one does not fit, with the first places that do not, and those that take too much work to check. The work
 * is bounded whatever they are, and done a little at a time.
 */
export const checkExamples = Effect.fnUntraced(function* (
  { answers, inputs }: TaskSchemas,
  examples: Iterable<{ readonly input: JsonObject; readonly answer: JsonObject }>
) {
  const work: WorkBudget = { left: MAX_TOTAL_WORK }
  const faults: Array<SchemaFault> = []
  let pauseAt = work.left - WORK_PER_TICK
  let index = 0
  for (const { answer, input } of examples) {
    const at = `#/examples/${index++}`
    faults.push(...inputs.check(input, `${at}/input`, work), ...answers.check(answer, `${at}/answer`, work))
    if (work.left < 0) {
      const detail = "is where the examples become too much to be checked together; send fewer at a time"
      return yield* new InvalidInput({
        detail: "The examples are too much to be checked together against the task's shapes",
        errors: [{ pointer: at, detail }]
      })
    }
    if (faults.length >= MAX_FAULTS) break
    if (work.left < pauseAt) {
      pauseAt = work.left - WORK_PER_TICK
      yield* Effect.yieldNow
    }
  }
  if (faults.length > 0) {
    return yield* new InvalidInput({
      detail: "An example does not fit the task's shapes",
      errors: redactFaults(faults.slice(0, MAX_FAULTS))
    })
  }
})
