import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { vi } from "vitest"
import { explainSlowStart } from "../../src/testing/explainSlowStart.ts"

/** Captures the output on standard error meanwhile. */
const captureErrors = <A, E, R>(use: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => vi.spyOn(process.stderr, "write").mockReturnValue(true)),
    (written) => Effect.map(use, () => written.mock.calls.map(([text]) => String(text)).join("")),
    (written) => Effect.sync(() => written.mockRestore())
  )

describe("explainSlowStart", () => {
  it.effect("a slow start says how to allow more time, also under a TestClock that stands still", () =>
    Effect.gen(function* () {
      const text = yield* captureErrors(Effect.flatMap(explainSlowStart(Duration.millis(1)), Fiber.join))
      assert.include(text, 'layer(Countersign.layer(), { timeout: "60 seconds" })')
      assert.include(text, "hookTimeout")
    }).pipe(Effect.scoped)
  )

  it.effect("a start that has ended explains nothing", () =>
    Effect.gen(function* () {
      const text = yield* captureErrors(Effect.flatMap(explainSlowStart(Duration.millis(1)), Fiber.interrupt))
      assert.strictEqual(text, "")
    }).pipe(Effect.scoped)
  )
})
