import { Effect, type ManagedRuntime } from "effect"
import { SqlClient } from "effect/sql"
import { setTimeout as pause } from "node:timers/promises"
import { processorSeconds } from "./measure.ts"

/** The cost of a service while nothing happens. */
export interface QuietCost {
  /** Percent of one processor. */
  readonly processor: number
  /** Database transactions a second. */
  readonly transactions: number
}

const transactions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT pg_stat_force_next_flush()`
  const [row] = yield* sql<{ readonly count: number }>`
    SELECT (xact_commit + xact_rollback)::float8 AS count
    FROM pg_stat_database
    WHERE datname = current_database()
  `
  return row?.count ?? Number.NaN
})

/** Measures the service with this process id on this database for some seconds. */
export const whileQuiet = async <E>(
  database: ManagedRuntime.ManagedRuntime<SqlClient.SqlClient, E>,
  pid: number,
  seconds: number
): Promise<QuietCost> => {
  const [cpu, count, since] = [
    processorSeconds(pid),
    await database.runPromise(transactions),
    performance.now()
  ]
  await pause(seconds * 1_000)
  const passed = (performance.now() - since) / 1_000
  return {
    processor: (100 * (processorSeconds(pid) - cpu)) / passed,
    transactions: ((await database.runPromise(transactions)) - count) / passed
  }
}
