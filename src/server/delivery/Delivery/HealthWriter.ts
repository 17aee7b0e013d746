import { Clock, Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Dispatcher } from "./Dispatcher.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import { writeHealth } from "./writeHealth.ts"

/** How long the first lane of a batch waits for others, in milliseconds. */
const GATHER_MILLIS = 10

/** Lanes in one statement. */
const BATCH_SIZE = 1_000

/** The pause before another attempt if a destination's row is locked, in milliseconds. */
const RETRY_MILLIS = 250

/** Persists the health of destinations. */
export interface HealthWriter {
  /**
   * One iteration of the worker: waits until the health of a destination differs from the stored one, then writes a
   * batch.
   */
  readonly runOnce: Effect.Effect<void, SqlError.SqlError>
}

/** Health is persisted separately from results. The log does not depend on it, so no result waits for it. */
export const makeHealthWriter = (
  sql: SqlClient.SqlClient,
  dispatcher: Dispatcher
): Effect.Effect<HealthWriter> =>
  Effect.map(Clock.Clock, (clock) => ({
    runOnce: Effect.gen(function* () {
      yield* dispatcher.hasUnsavedHealth.await
      yield* Effect.sleep(GATHER_MILLIS)
      const unsaved = dispatcher.unsavedHealth(BATCH_SIZE)
      if (unsaved.size === 0) return
      const held = yield* writeHealth(sql, unsaved, monotonicMillis(clock))
      dispatcher.acknowledgeHealth(new Map([...unsaved].filter(([lane]) => !held.has(lane.key))))
      if (held.size > 0) yield* Effect.sleep(RETRY_MILLIS)
    })
  }))
