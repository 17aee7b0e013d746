import { Effect } from "effect"
import { CorrectionNeedsSafeValue, InvalidCorrection, PayloadTooLarge } from "../../../api/Problems.ts"
import { describeFirst } from "../../../domain/describeIssue.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { type KnownValues, redact } from "../../../domain/redaction/Redaction.ts"
import { redactFaults } from "../../../domain/redaction/Redaction/redactFaults.ts"
import { nextTurn, nextTurnOrYield } from "../../admission/LoopTurns.ts"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"
import { redactTexts } from "../../secrets/redactTexts.ts"
import { redactionWarning } from "../redactJson.ts"

/** The JSON pointer of a correction in its request. */
const AT = "#/correction"

/**
 * Characters of JSON above which the texts of a correction are redacted one by one: fewer take 8 ms at most, if every
 * word looks like a secret.
 */
const LARGE_CORRECTION = 4 * 1024

/** A correction without protected values. */
export interface RedactedCorrection {
  readonly correction: JsonObject
  /** Its JSON text. */
  readonly text: string
  /** Names the fields that values were removed from; `undefined` if none were. */
  readonly warning: string | undefined
}

/**
 * Validates a correction, removes protected values, and validates the result again, so that the stored correction matches the answer schema
 * without them. No problem detail contains a value of the correction.
 */
export const redactCorrection = Effect.fnUntraced(function* (
  correction: JsonObject,
  schema: CompiledSchema,
  known: Effect.Effect<KnownValues>
) {
  yield* nextTurn
  const faults = schema.check(correction, AT)
  const values = yield* known
  if (faults.length > 0) {
    const errors = redactFaults(faults, values)
    return yield* new InvalidCorrection({
      detail: `The correction does not match the task's answer schema: ${describeFirst(errors)}`,
      errors
    })
  }
  yield* nextTurn
  const text = JSON.stringify(correction)
  const redactedTexts =
    text.length > LARGE_CORRECTION ? yield* redactTexts(correction, values, nextTurnOrYield) : undefined
  yield* nextTurn
  const redaction = redact(correction, values, AT, redactedTexts)
  if (redaction._tag === "Unsearchable") {
    const { detail, pointer } = redaction
    return yield* new PayloadTooLarge({
      detail: "The correction has too many values to be searched for protected ones. Send a smaller one.",
      errors: [{ pointer, detail }]
    })
  }
  if (redaction.count === 0) {
    const unchanged: RedactedCorrection = { correction, text, warning: undefined }
    return unchanged
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- redaction keeps every object an object
  const value = redaction.value as JsonObject
  yield* nextTurn
  const newFaults = schema.check(value, AT)
  if (newFaults.length > 0) {
    return yield* new CorrectionNeedsSafeValue({
      detail:
        "A protected value was removed, and the correction does not match the answer schema without it. Send an example value in its place.",
      errors: redactFaults(newFaults, values)
    })
  }
  const redacted: RedactedCorrection = {
    correction: value,
    text: JSON.stringify(value),
    warning: redactionWarning(redaction)
  }
  return redacted
})
