import { Effect, type Schema } from "effect"
import type { JsonObject } from "../../domain/tasks/Dataset.ts"
import { nextTurnOrYield } from "../concurrency/LoopTurns.ts"
import {
  collectTexts,
  type KnownValues,
  redactInSteps,
  redactStored,
  type Redaction
} from "../../domain/redaction/Redaction.ts"

/** Characters that are redacted between two pauses: at most 15 ms, if every word looks like a secret. */
const CHARACTERS_PER_SLICE = 4 * 1024

/** What searching a text costs apart from its length, in characters. */
const CHARACTERS_PER_TEXT = 32

/** Redacts the texts of a large value one by one, with `pause` in between. */
export const redactTexts = Effect.fnUntraced(function* (
  value: Schema.Json,
  known: KnownValues,
  pause: Effect.Effect<void>
) {
  const redacted = new Map<string, string>()
  let characters = 0
  for (const text of collectTexts(value)) {
    const steps = redactInSteps(text, known)
    let step = steps.next()
    for (; step.done !== true; step = steps.next()) yield* pause
    redacted.set(text, step.value)
    // A short text costs more than its characters.
    characters += text.length + CHARACTERS_PER_TEXT
    if (characters > CHARACTERS_PER_SLICE) {
      characters = 0
      yield* pause
    }
  }
  return redacted
})

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
