import { Duration } from "effect"
import { type SqlClient, Statement } from "effect/sql"
import type { StoreClock } from "./StoreClock.ts"

/** Made once: statements of every request contain it. */
const databaseTime = Statement.fragment([Statement.literal("statement_timestamp()")])

/** The current time as an expression of a statement: the database's own, unless a test simulates it. */
export const currentTime = (
  sql: SqlClient.SqlClient,
  { simulated }: Pick<StoreClock["Service"], "simulated">
): Statement.Fragment => (simulated === undefined ? databaseTime : sql`${simulated()}::timestamptz`)

/** A moment from now, by `currentTime`. */
export const timeFromNow = (
  sql: SqlClient.SqlClient,
  clock: Pick<StoreClock["Service"], "simulated">,
  duration: Duration.Duration
): Statement.Fragment =>
  sql`${currentTime(sql, clock)} + ${Duration.toMillis(duration)}::float8 * interval '1 millisecond'`
