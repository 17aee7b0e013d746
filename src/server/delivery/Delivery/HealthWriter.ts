import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Health } from "../../../domain/delivery/Cooldown.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import type { Worker } from "../../concurrency/Worker.ts"
import type { DeliveryStore } from "./DeliveryStore.ts"
import type { Lane } from "./Lane.ts"

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
      const saved = [...unsaved].filter(([lane]) => !locked.has(lane.key))
      dispatcher.acknowledgeHealth(new Map(saved))
      yield* Effect.forEach(saved, logFirstCooldown, { discard: true })
      // Waits here, since `wakeUp` would complete immediately: the locked lanes are still unsaved.
      if (locked.size > 0) yield* Effect.sleep(RETRY_MILLIS)
    })
  }
})

/** Logs the first cooldown since the last success of a destination. The following ones are in the metrics. */
const logFirstCooldown = ([lane, health]: readonly [Lane, Health]): Effect.Effect<void> => {
  const isLogged = lane.isCooldownLogged
  lane.isCooldownLogged = health._tag !== "Healthy"
  if (isLogged || !lane.isCooldownLogged || lane.channel.logsOutages === true) return Effect.void
  return Effect.annotateLogs(
    Effect.logWarning(
      `Deliveries to a destination fail; it gets no attempts during a cooldown: ${lane.lastError ?? "unknown error"}`
    ),
    {
      channel: lane.channel.name,
      org_id: lane.org_id,
      destination_id: lane.destination_id,
      failures: health.failures
    }
  )
}
