import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"

/** Looks again until it holds: what the engine writes has no other end to wait for. */
export const eventually = <A, E, R>(look: Effect.Effect<A, E, R>, holds: (a: A) => boolean) =>
  look.pipe(
    Effect.repeat({ until: holds, schedule: Schedule.spaced("10 millis") }),
    Effect.timeout("20 seconds")
  )

/**
 * Ends once so many statements of this database wait for locks. Also within a transaction, where what `pg_stat_activity` says stays as
 * it was.
 */
export const waitForBlockedStatements = (count: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    eventually(
      sql<{ readonly count: number }>`
        SELECT count(DISTINCT w.pid)::int AS count
        FROM pg_locks w
        JOIN pg_locks here ON here.pid = w.pid
        JOIN pg_database d ON d.oid = here.database
        WHERE NOT w.granted
          AND d.datname = current_database()
      `,
      ([row]) => (row?.count ?? 0) >= count
    )
  )
