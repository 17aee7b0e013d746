import { DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { identifyRows, isCluster } from "../../store/Cluster.ts"
import { atomic } from "../../store/transaction.ts"

/** How many days ahead partitions of attempts are created. */
const DAYS_AHEAD = 3

/** "csgr" in ASCII. The advisory lock under which one replica at a time maintains the partitions. */
const RETENTION_LOCK = 0x63736772

/** Creates missing partitions of `delivery_attempts` and drops expired ones. Returns how many were dropped. */
export const maintainPartitions = (sql: SqlClient.SqlClient, cutoff: DateTime.Utc, today: DateTime.Utc) =>
  atomic(sql)(
    Effect.gen(function* () {
      // A short lock timeout: while this statement waits for its lock, every later statement on the table waits too.
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
      const clustered = yield* isCluster(sql)
      const names = new Set(partitions.map((partition) => partition.name))
      // A partition expires once its whole day is older than the cutoff.
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
        // A day whose first attempts went to the default partition stays without one.
        if (strays?.found === true) continue
        yield* sql.unsafe(
          `CREATE TABLE ${name} PARTITION OF delivery_attempts FOR VALUES FROM ('${DateTime.formatIso(day)}') TO ('${DateTime.formatIso(next)}')`
        )
        if (clustered) yield* identifyRows(sql, name)
      }
      const expired = [...names].filter((name) => PARTITION.test(name) && name < oldest)
      for (const name of expired) yield* sql.unsafe(`DROP TABLE ${name}`)
      return expired.length
    })
  )

const PARTITION = /^delivery_attempts_\d{8}$/

/** The name of a day's partition; names sort by day. */
const partitionOf = (day: DateTime.Utc): string =>
  `delivery_attempts_${DateTime.formatIsoDateUtc(day).replaceAll("-", "")}`
