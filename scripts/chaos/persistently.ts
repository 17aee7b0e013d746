import { Effect, Schedule } from "effect"
import type { SqlError } from "effect/sql"

/** Retries a statement until the database responds: these tests restart it and break its connections. */
export const persistently = <A, R>(
  self: Effect.Effect<A, SqlError.SqlError, R>
): Effect.Effect<A, never, R> =>
  self.pipe(Effect.retry({ schedule: Schedule.spaced("100 millis"), times: 600 }), Effect.orDie)
