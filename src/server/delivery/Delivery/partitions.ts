import { DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { atomic } from "../../store/Database/transaction.ts"

/** Days of attempts that have a partition before they begin. */
const DAYS_AHEAD = 3

/** "csgr" in ASCII: of several processes one looks after the partitions. */
const RETENTION_LOCK = 0x63736772

/** Makes the partitions that are missing and drops those that are over; answers with how many were dropped. */
export const keepPartitions = (sql: SqlClient.SqlClient, cutoff: DateTime.Utc, today: DateTime.Utc) =>
  atomic(sql)(
    Effect.gen(function* () {
      // Whoever is in the way is not waited for long: those behind this would wait, too.
      yield* sql`SET LOCAL lock_timeout = '2s'`
      const [lock] = yield* sql<{ readonly held: boolean }>`
        SELECT pg_try_advisory_xact_lock(${RETENTION_LOCK}::bigint) AS held
      `
      if (lock?.held !== true) return 0
      const partitions = yield* sql<{ readonly name: string }>`
        SELECT c.relname::text AS name
        FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'delivery_attempts'::regclass
      `
      const names = new Set(partitions.map((partition) => partition.name))
      // A day is over when all of it is older than is kept.
      const oldest = partitionOf(cutoff)
      for (let ahead = -1; ahead <= DAYS_AHEAD; ahead++) {
        const day = DateTime.startOf(DateTime.add(today, { days: ahead }), "day")
        const name = partitionOf(day)
        if (names.has(name) || name < oldest) continue
        const next = DateTime.add(day, { days: 1 })
        const [strays] = yield* sql<{ readonly found: boolean }>`
          SELECT EXISTS (
            SELECT 1
            FROM delivery_attempts_default
            WHERE started_at >= ${DateTime.toDateUtc(day)}
              AND started_at < ${DateTime.toDateUtc(next)}
          ) AS found
        `
        // A day that began without a partition stays without.
        if (strays?.found === true) continue
        yield* sql.unsafe(
          `CREATE TABLE ${name} PARTITION OF delivery_attempts FOR VALUES FROM ('${DateTime.formatIso(day)}') TO ('${DateTime.formatIso(next)}')`
        )
      }
      const over = [...names].filter((name) => PARTITION.test(name) && name < oldest)
      for (const name of over) yield* sql.unsafe(`DROP TABLE ${name}`)
      return over.length
    })
  )

const PARTITION = /^delivery_attempts_\d{8}$/

/** The partition of a day: its name sorts by the day. */
const partitionOf = (day: DateTime.Utc): string =>
  `delivery_attempts_${DateTime.formatIsoDateUtc(day).replaceAll("-", "")}`
