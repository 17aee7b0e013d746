import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"

/** Polls until the predicate holds, for at most a minute: for effects of background workers that offer nothing to await. */
export const eventually = <A, E, R>(look: Effect.Effect<A, E, R>, holds: (a: A) => boolean) =>
  look.pipe(
    Effect.repeat({ until: holds, schedule: Schedule.spaced("10 millis") }),
    Effect.timeout("1 minute")
  )

/**
 * Waits until `count` statements of this database are blocked on locks. Works inside a transaction too, where `pg_stat_activity` would
 * return a stale snapshot.
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

/** Waits until a statement of this database has been blocked on a lock for so many milliseconds. */
export const waitForStatementBlockedFor = (millis: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    eventually(
      sql`
        SELECT 1
        FROM pg_stat_activity
        WHERE datname = current_database()
          AND wait_event_type = 'Lock'
          AND clock_timestamp() - query_start > ${millis} * interval '1 millisecond'
      `,
      (rows) => rows.length > 0
    )
  )
