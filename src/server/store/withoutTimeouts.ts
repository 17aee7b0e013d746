import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { NoResponseDeadline } from "./Database/ResponseDeadline.ts"
import { requireTransaction } from "./transaction.ts"

/**
 * Runs statements of the caller's transaction without the timeouts of requests, for an operator's command that may wait
 * for another one for minutes. Afterwards the transaction has its timeouts again.
 */
export const withoutTimeouts = <A, E, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError.SqlError, R | SqlClient.SqlClient> =>
  Effect.gen(function* () {
    yield* requireTransaction
    const sql = yield* SqlClient.SqlClient
    yield* sql`SET LOCAL statement_timeout = 0`
    yield* sql`SET LOCAL lock_timeout = 0`
    const result = yield* Effect.provideService(self, NoResponseDeadline, true)
    yield* sql`SET LOCAL statement_timeout TO DEFAULT`
    yield* sql`SET LOCAL lock_timeout TO DEFAULT`
    return result
  })
