import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"

/** Looks again until it holds: what the engine writes has no other end to wait for. */
export const eventually = <A, E, R>(look: Effect.Effect<A, E, R>, holds: (a: A) => boolean) =>
  look.pipe(
    Effect.repeat({ until: holds, schedule: Schedule.spaced("10 millis") }),
    Effect.timeout("20 seconds")
  )

/** Ends once a statement waits for a lock. */
export const someoneWaits = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  eventually(
    sql`SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    (rows) => rows.length > 0
  )
)
