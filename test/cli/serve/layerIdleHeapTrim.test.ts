import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { layerIdleHeapTrim } from "../../../src/cli/serve/layerIdleHeapTrim.ts"

/** A process whose processor time the test sets, and which counts its collections. */
const makeProcess = () => {
  const state = { micros: 0, collections: 0 }
  /** Lets an interval pass with so much work, in milliseconds. */
  const spend = (millis: number) =>
    Effect.andThen(
      Effect.sync(() => void (state.micros += millis * 1_000)),
      TestClock.adjust("5 seconds")
    )
  const layer = layerIdleHeapTrim(() => ({
    processorMicros: () => state.micros,
    collect: () => {
      state.collections++
      // A collection takes processor time itself.
      state.micros += 400_000
    }
  }))
  return { state, spend, layer }
}

describe("layerIdleHeapTrim", () => {
  it.effect("garbage is collected once after 30 idle seconds, and again after the next load", () =>
    Effect.gen(function* () {
      const { layer, spend, state } = makeProcess()
      yield* Layer.build(layer)
      const counts: Array<number> = []
      for (const work of [2_000, 160, 20, 20, 20, 20, 20, 140, 20, 2_000, 20, 20, 20, 20, 20, 20]) {
        yield* spend(work)
        counts.push(state.collections)
      }
      assert.deepStrictEqual(counts, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2])
    }).pipe(Effect.scoped)
  )

  it.effect("a pause between two bursts of load causes no collection", () =>
    Effect.gen(function* () {
      const { layer, spend, state } = makeProcess()
      yield* Layer.build(layer)
      for (const work of [2_000, 20, 20, 20, 20, 20, 2_000, 20, 20, 20, 20, 20, 2_000]) yield* spend(work)
      assert.strictEqual(state.collections, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("an idle process releases memory that nothing refers to", () =>
    Effect.gen(function* () {
      const reference = yield* Effect.sync(() => new WeakRef({ words: "garbage" }))
      yield* Layer.build(layerIdleHeapTrim())
      // A target of a WeakRef that was created in this tick stays alive until the tick ends.
      yield* Effect.promise(() => new Promise(setImmediate))
      yield* TestClock.adjust("5 minutes")
      assert.isUndefined(reference.deref())
    }).pipe(Effect.scoped)
  )
})
