import { Effect, Schema } from "effect"
import { SqlError } from "effect/sql"

/**
 * Turns the errors that no caller can handle into defects, so that only domain errors are left: an unavailable database, which is answered
 * with 503, and a row of our own that does not decode. If there are no domain errors, `Effect.orDie` does the same.
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
 * Whether an error is transient: no connection, a time-out, no disk space, or a lost race for a lock. The library classifies a server that
 * stops, starts or closes a connection (57P01 to 57P03) and a lack of resources (class 53) as faults of the statement, so the SQLSTATE is
 * checked too.
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

/** The five-character SQLSTATE of a PostgreSQL error, or an empty string if the driver's error has none. */
const sqlState = (error: SqlError.SqlError): string => {
  const { cause } = error.reason
  if (typeof cause !== "object" || cause === null || !("code" in cause)) return ""
  return typeof cause.code === "string" ? cause.code : ""
}

/** Fails like a lock time-out: for a caller that waited too long for a permit to open a transaction. */
export const permitTimeout: Effect.Effect<never, SqlError.SqlError> = Effect.fail(
  new SqlError.SqlError({
    reason: new SqlError.LockTimeoutError({
      cause: undefined,
      message: "Timed out waiting for other transactions of the organization to end",
      operation: "transaction"
    })
  })
)
