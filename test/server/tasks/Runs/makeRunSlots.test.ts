import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, References } from "effect"
import { OrgId } from "../../../../src/domain/Ids.ts"
import { LimitUse } from "../../../../src/server/observability/LimitUse.ts"
import { makeRunSlots } from "../../../../src/server/tasks/Runs/makeRunSlots.ts"

const pass = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

describe("makeRunSlots", () => {
  it.live("a run that is interrupted at any moment frees its slot", () =>
    Effect.gen(function* () {
      const org = yield* OrgId.generate
      const withSlot = makeRunSlots({ concurrentRuns: 1, runBytes: 0 }, yield* LimitUse)
      // A fiber yields after so many steps, and can then be interrupted: between any two steps for one of these numbers.
      for (let steps = 2; steps < 20; steps++) {
        for (let passes = 0; passes < 6; passes++) {
          const run = Effect.andThen(Effect.yieldNow, withSlot(org, null)(Effect.never))
          const fiber = yield* Effect.forkChild(
            Effect.provideService(run, References.MaxOpsBeforeYield, steps)
          )
          for (let count = 0; count < passes; count++) yield* pass
          yield* Fiber.interrupt(fiber)
          const next = yield* Effect.exit(withSlot(org, null)(Effect.void))
          assert.isTrue(Exit.isSuccess(next), `after ${passes} passes with ${steps} steps each`)
        }
      }
    }).pipe(Effect.provide(LimitUse.layerNone))
  )
})
