import { Effect } from "effect"
import { CorrectionNeedsSafeValue, InvalidCorrection, PayloadTooLarge } from "../../../api/Problems.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { type KnownValues, redact, redactText, collectTexts } from "../../../domain/redaction/Redaction.ts"
import { redactFaults } from "../../../domain/redaction/Redaction/redactFaults.ts"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"

/** Where a correction stands in its request. */
const AT = "#/correction"

/** Characters of a correction from which its texts are searched one by one, with pauses for other requests. */
const LARGE = 64 * 1024

/** A correction that may be kept. */
export interface RedactedCorrection {
  readonly correction: JsonObject
  /** Its JSON text. */
  readonly text: string
  /** Names the fields that something was removed from, where something was. */
  readonly warning: string | undefined
}

/**
 * A correction that fits the shape, without protected values: it is checked, what must not be kept is removed, and what is left is
 * checked again. No problem holds a value.
 */
export const redactCorrection = Effect.fnUntraced(function* (
  correction: JsonObject,
  shape: CompiledSchema,
  known: Effect.Effect<KnownValues>
) {
  const faults = shape.check(correction, AT)
  const values = yield* known
  if (faults.length > 0) {
    return yield* new InvalidCorrection({
      detail: "The correction does not fit the task's answer shape",
      errors: redactFaults(faults, values)
    })
  }
  const text = JSON.stringify(correction)
  const cleaned = text.length > LARGE ? yield* cleanedTexts(correction, values) : undefined
  const redaction = redact(correction, values, AT, cleaned)
  if (redaction._tag === "Unsearchable") {
    const { detail, pointer } = redaction
    return yield* new PayloadTooLarge({
      detail: "The correction is too large to be searched for protected values",
      errors: [{ pointer, detail }]
    })
  }
  if (redaction.count === 0) {
    const safe: RedactedCorrection = { correction, text, warning: undefined }
    return safe
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- redaction keeps every object an object
  const left = redaction.value as JsonObject
  const unfit = shape.check(left, AT)
  if (unfit.length > 0) {
    return yield* new CorrectionNeedsSafeValue({
      detail:
        "A protected value was removed, and without it the correction does not fit: put an example value there",
      errors: redactFaults(unfit, values)
    })
  }
  const safe: RedactedCorrection = {
    correction: left,
    text: JSON.stringify(left),
    warning: warningOf(redaction.pointers, redaction.count)
  }
  return safe
})

/** The texts of a large value, searched one by one. */
const cleanedTexts = Effect.fnUntraced(function* (correction: JsonObject, known: KnownValues) {
  const cleaned = new Map<string, string>()
  let since = 0
  for (const text of collectTexts(correction)) {
    cleaned.set(text, redactText(text, known))
    since += text.length
    if (since > LARGE) {
      since = 0
      yield* Effect.yieldNow
    }
  }
  return cleaned
})

const warningOf = (pointers: ReadonlyArray<string>, count: number): string => {
  const more = count - pointers.length
  return `Protected values were removed from ${pointers.join(", ")}${more > 0 ? ` and ${more} more` : ""}`
}
