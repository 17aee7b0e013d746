import { Effect, type Schema } from "effect"
import { collectTexts, type KnownValues, redactInSteps } from "../../domain/redaction/Redaction.ts"

/** Milliseconds of work between two pauses, apart from the last step, which takes a few more. */
const SLICE_MILLIS = 5

/**
 * Redacts the texts of a large value one by one, for `redact` to use. Runs `pause` every few milliseconds, so that other requests are not
 * held up.
 */
export const redactTexts = Effect.fnUntraced(function* (
  value: Schema.Json,
  known: KnownValues,
  pause: Effect.Effect<void>
) {
  const redacted = new Map<string, string>()
  // The process's clock: slices share out its event loop, also when a test moves Effect's clock.
  let sliceEnd = performance.now() + SLICE_MILLIS
  for (const text of collectTexts(value)) {
    const steps = redactInSteps(text, known)
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done === true) redacted.set(text, step.value)
      if (performance.now() >= sliceEnd) {
        yield* pause
        sliceEnd = performance.now() + SLICE_MILLIS
      }
      if (step.done === true) break
    }
  }
  return redacted
})
