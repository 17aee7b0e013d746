import { Effect, Schema } from "effect"
import { SqlError } from "effect/sql"

/**
 * What no caller can act on dies, and only domain errors are left: that the store is away (the frame answers 503), or that a row of our own
 * does not decode. Where there is no domain error to leave, `Effect.orDie` says the same.
 */
export const dieOnDatabaseError = <A, E, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError | Schema.SchemaError>, R> =>
  self.pipe(
    Effect.catch((error) =>
      isDatabaseError(error)
        ? Effect.die(error)
        : // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a guard does not narrow an open type; this is the rest of `E`
          Effect.fail(error as Exclude<E, SqlError.SqlError | Schema.SchemaError>)
    )
  )

const isDatabaseError = (error: unknown): error is SqlError.SqlError | Schema.SchemaError =>
  SqlError.isSqlError(error) || Schema.isSchemaError(error)

/**
 * Faults of the store that pass by themselves: no connection, no time, no room, a lost race. The client knows them by their kind alone
 * and takes a server that stops, starts or cuts a connection (57P01 to 57P03), or has no room (class 53), for a fault of the statement.
 */
export const isDatabaseUnavailable = (error: SqlError.SqlError): boolean => {
  switch (error.reason._tag) {
    case "ConnectionError":
    case "AuthenticationError":
    case "LockTimeoutError":
    case "StatementTimeoutError":
    case "DeadlockError":
    case "SerializationError":
      return true
    default:
      return /\b(53\d{3}|57P0\d|08\w{3}|25006|58\d{3})\b/.test(sqlState(error))
  }
}

/** The five-character state of a PostgreSQL error, where the driver's error carries one. */
const sqlState = (error: SqlError.SqlError): string => {
  const { cause } = error.reason
  if (typeof cause !== "object" || cause === null || !("code" in cause)) return ""
  return typeof cause.code === "string" ? cause.code : ""
}
