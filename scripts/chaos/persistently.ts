import { Effect, Schedule } from "effect"
import type { SqlError } from "effect/sql"

/** Tries a statement until the store answers: it is restarted here, and its connections are cut. */
export const persistently = <A, R>(
  self: Effect.Effect<A, SqlError.SqlError, R>
): Effect.Effect<A, never, R> =>
  self.pipe(Effect.retry({ schedule: Schedule.spaced("100 millis"), times: 600 }), Effect.orDie)
