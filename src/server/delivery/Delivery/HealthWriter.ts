import { Clock, Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Dispatcher } from "./Dispatcher.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import { writeHealth } from "./writeHealth.ts"

/** How long the first lane of a group waits for others. */
const GATHER_MILLIS = 10

/** Lanes of one statement. */
const GROUP = 1_000

/** Between two tries where somebody else holds a destination's row. */
const AGAIN_MILLIS = 250

/** Stores how destinations fare. */
export interface HealthWriter {
  /** Waits until a destination fares otherwise than is stored, then writes a group of such. */
  readonly turn: Effect.Effect<void, SqlError.SqlError>
}

/** Apart from the results: health informs, and decides nothing that the log records, so that no result waits for it. */
export const makeHealthWriter = (
  sql: SqlClient.SqlClient,
  dispatcher: Dispatcher
): Effect.Effect<HealthWriter> =>
  Effect.map(Clock.Clock, (clock) => ({
    turn: Effect.gen(function* () {
      yield* dispatcher.anyUnsaved.await
      yield* Effect.sleep(GATHER_MILLIS)
      const unsaved = dispatcher.unsaved(GROUP)
      if (unsaved.size === 0) return
      const held = yield* writeHealth(sql, unsaved, monotonicMillis(clock))
      dispatcher.saved(new Map([...unsaved].filter(([lane]) => !held.has(lane.key))))
      if (held.size > 0) yield* Effect.sleep(AGAIN_MILLIS)
    })
  }))
