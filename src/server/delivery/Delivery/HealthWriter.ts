import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Dispatcher } from "./Dispatcher.ts"
import type { Worker } from "../../concurrency/Worker.ts"
import type { DeliveryStore } from "./DeliveryStore.ts"

/** How long the first lane of a batch waits for others, in milliseconds. */
const GATHER_MILLIS = 10

/** Lanes in one statement. */
const BATCH_SIZE = 1_000

/** The pause before another attempt if a destination's row is locked, in milliseconds. */
const RETRY_MILLIS = 250

/** Persists the health of destinations. */
export interface HealthWriter {
  /** Writes a batch of health that differs from the stored one. */
  readonly worker: Worker<SqlError.SqlError, never>
}

/** Health is persisted separately from results. The log does not depend on it, so no result waits for it. */
export const makeHealthWriter = (store: DeliveryStore, dispatcher: Dispatcher): HealthWriter => ({
  worker: {
    name: "delivery_health",
    wakeUp: Effect.andThen(dispatcher.hasUnsavedHealth.await, Effect.sleep(GATHER_MILLIS)),
    runOnce: Effect.gen(function* () {
      const unsaved = dispatcher.unsavedHealth(BATCH_SIZE)
      if (unsaved.size === 0) return
      const locked = yield* store.saveHealth(unsaved)
      dispatcher.acknowledgeHealth(new Map([...unsaved].filter(([lane]) => !locked.has(lane.key))))
      // Waits here, since `wakeUp` would complete immediately: the locked lanes are still unsaved.
      if (locked.size > 0) yield* Effect.sleep(RETRY_MILLIS)
    })
  }
})
