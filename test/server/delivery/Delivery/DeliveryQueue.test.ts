import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, References } from "effect"
import { SqlClient } from "effect/sql"
import { makeDeliveryQueue } from "../../../../src/server/delivery/Delivery/DeliveryQueue.ts"
import { processTime, testWithDatabase } from "../../../support/delivery.ts"

describe("DeliveryQueue", () => {
  testWithDatabase(
    "a statement that is interrupted ends its tracked read, however early the interruption",
    () =>
      Effect.gen(function* () {
        let tracked = 0
        const { enqueueWith } = makeDeliveryQueue(yield* SqlClient.SqlClient, processTime, new Map(), () => {
          tracked++
          return () => Effect.sync(() => void tracked--)
        })
        for (let ticks = 0; ticks < 40; ticks++) {
          const fiber = yield* enqueueWith([], () => Effect.never).pipe(
            // Yields after every few operations, so that an interruption can arrive between any two of them.
            Effect.provideService(References.MaxOpsBeforeYield, 3 + (ticks % 4)),
            Effect.forkChild
          )
          for (let tick = 0; tick < ticks; tick++) yield* Effect.yieldNow
          yield* Fiber.interrupt(fiber)
          assert.strictEqual(tracked, 0, `interrupted after ${ticks} ticks`)
        }
      })
  )
})
