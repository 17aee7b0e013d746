import { Effect, Option, Semaphore } from "effect"
import type { SqlClient, SqlError } from "effect/sql"

/**
 * Makes a function that runs a statement on a connection that it shares with no other statement: at most `connections`
 * at a time, further ones on shared connections; in an open transaction, on the transaction's.
 *
 * For frequent writes. The shared client pipelines statements over as few connections as it can (see `Database.layer`),
 * and a connection runs one after another. A write there delays all statements behind it by its commit, and no two
 * writes commit together. PostgreSQL flushes the write-ahead log once for all connections that wait for it, but only
 * one of the pipelined writes waits at a time.
 */
export const makeOnOwnConnection = (sql: SqlClient.SqlClient, connections: number) => {
  const permits = Semaphore.makeUnsafe(connections)
  return <A, E, R>(statement: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> => {
    // No transaction is begun: a client sends statements to the connection of this service, and a lone statement commits itself.
    const alone = Effect.scoped(
      Effect.flatMap(sql.reserve, (connection) =>
        Effect.provideService(statement, sql.transactionService, [connection, 0])
      )
    )
    return Effect.flatMap(Effect.serviceOption(sql.transactionService), (open) =>
      Option.isSome(open)
        ? statement
        : Effect.flatMap(permits.withPermitsIfAvailable(1)(alone), (done) =>
            Option.isSome(done) ? Effect.succeed(done.value) : statement
          )
    )
  }
}
