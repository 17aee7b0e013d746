import { Effect } from "effect"
import type { JsonObject } from "../../domain/tasks/Dataset.ts"
import { nextTurnOrYield } from "../admission/LoopTurns.ts"
import { redactTexts } from "../secrets/redactTexts.ts"
import { type KnownValues, redactStored, type Redaction } from "../../domain/redaction/Redaction.ts"

/** Redacts a stored JSON object; other requests run in the pauses. */
export const redactObject = Effect.fnUntraced(function* (value: JsonObject, known: KnownValues, at: string) {
  const redaction = redactStored(value, known, at, yield* redactTexts(value, known, nextTurnOrYield))
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- redaction keeps every object an object
  return { ...redaction, value: redaction.value as JsonObject }
})

/** The sentence that names the fields from which values were removed. */
export const redactionWarning = ({ count, pointers }: Pick<Redaction, "count" | "pointers">): string => {
  const more = count - pointers.length
  return `Protected values were removed from ${pointers.join(", ")}${more > 0 ? ` and ${more} more` : ""}`
}
