import { Effect } from "effect"
import { InvalidInstructions } from "../../api/Problems.ts"
import { templateFault } from "../../domain/tasks/InstructionTemplate.ts"
import type { JsonSchema } from "../../domain/tasks/Task.ts"

/** Fails if instructions have variables that no input of the schema has. `pointer` is their place in the request. */
export const checkInstructions = (
  instructions: string | undefined,
  input_schema: JsonSchema,
  pointer: string
): Effect.Effect<void, InvalidInstructions> => {
  const fault = instructions === undefined ? undefined : templateFault(instructions, input_schema)
  return fault === undefined
    ? Effect.void
    : Effect.fail(new InvalidInstructions({ detail: `${fault}.`, errors: [{ pointer, detail: fault }] }))
}
