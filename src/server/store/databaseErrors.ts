import { Effect, Schema } from "effect"
import * as SqlError from "effect/sql/SqlError"

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
 * Whether an error is transient: no connection, a time-out, no disk space, or a lost race for a lock. The server ends
 * the session of a transaction that pauses for too long, as in a process that was suspended. The library classifies a server that
 * stops, starts or closes a connection (57P01 to 57P03) and a lack of resources (class 53) as faults of the statement, so the SQLSTATE is
 * checked too.
 */
export const isDatabaseUnavailable = (error: SqlError.SqlError): boolean => {
  switch (error.reason._tag) {
    case "LockTimeoutError":
    case "StatementTimeoutError":
    case "DeadlockError":
    case "SerializationError":
      return true
    default:
      return sqlState(error) === IDLE_IN_TRANSACTION_TIMEOUT || isDatabaseOutage(error)
  }
}

/** `idle_in_transaction_session_timeout`. */
const IDLE_IN_TRANSACTION_TIMEOUT = "25P03"

/**
 * Whether the error belongs to an outage: all statements, or all writes, fail until its cause is removed. A lost race
 * for a lock is not an outage.
 */
export const isDatabaseOutage = (error: SqlError.SqlError): boolean => {
  switch (error.reason._tag) {
    case "ConnectionError":
    case "AuthenticationError":
      return true
    default:
      return OUTAGE.test(sqlState(error)) || isDiskFailure(error)
  }
}

/**
 * Whether a write failed because the server's disk is read-only or its quota is used up. PostgreSQL reports the former
 * like a missing permission (42501), and the latter like a defect of its own (XX000), so that only the text of the
 * system's error tells, in the message or in its detail. A server with messages in another language is not recognized.
 */
const isDiskFailure = (error: SqlError.SqlError): boolean => {
  const { cause } = error.reason
  if (typeof cause !== "object" || cause === null) return false
  if (sqlState(error) !== "42501" && sqlState(error) !== "XX000") return false
  const texts = [Reflect.get(cause, "message"), Reflect.get(cause, "detail")]
  return texts.some((text) => typeof text === "string" && DISK_FAILURE.test(text))
}

/** The end of an error about a file of the server. The rest is the name of the file. */
const DISK_FAILURE = /: (?:Read-only file system|Disk quota exceeded)\.?$/

/**
 * Lack of resources (class 53, but not 53400, a limit of one statement), a server that stops or starts, a lost connection, a
 * read-only server, and failed system calls (class 58).
 */
const OUTAGE = /^(53(?!400)\d{3}|57P0\d|08\w{3}|25006|58\d{3})$/

/**
 * Classes of SQLSTATE whose messages come from the server's state and contain no value of a row or of a statement. They
 * are about connections, transactions, authentication, lost races, resources, locks, the operator's intervention and
 * system calls.
 */
const SAFE_CLASS = /^(08|25|28|3D|40|53|55|57|58)/

/** Description of the failure, with the SQLSTATE, and with the server's message if that cannot contain a sent value. */
export const describeDatabaseError = (error: SqlError.SqlError): string => {
  const state = sqlState(error)
  // The message of 42501 names only a table or a schema, and that of a disk failure only a file of the server.
  const isSafe = state === "" || state === "42501" || SAFE_CLASS.test(state) || isDiskFailure(error)
  const text = isSafe ? oneLine(innermostMessage(error.reason.cause) ?? error.reason.message ?? "") : ""
  const reason = text === "" ? error.reason._tag : text
  return state === "" ? reason : `${reason} (SQLSTATE ${state})`
}

/** The longest message that is logged. */
const MAX_MESSAGE = 300

const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim().slice(0, MAX_MESSAGE)

/**
 * The message of the innermost cause. If several addresses were tried, the error has no message of its own, but one
 * error for each address.
 */
const innermostMessage = (error: unknown): string | undefined => {
  if (!(error instanceof Error)) return undefined
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error.cause
  return innermostMessage(inner) ?? (error.message === "" ? undefined : error.message)
}

/** Fails like a write to a standby, for a check that must not write. */
export const readOnlyError: SqlError.SqlError = new SqlError.SqlError({
  reason: new SqlError.UnknownError({
    cause: Object.assign(
      new Error("the server is read-only: a standby, or default_transaction_read_only is on"),
      {
        code: "25006"
      }
    ),
    operation: "check"
  })
})

/** Whether the server rejected a statement because it, or its default for transactions, is read-only. */
export const isReadOnlyError = (error: unknown): boolean =>
  SqlError.isSqlError(error) && sqlState(error) === "25006"

/** A SQLSTATE, and not the code of a system call such as EPIPE. */
const SQL_STATE = /^[0-9FHPX][0-9A-Z]{4}$/

/** The five-character SQLSTATE of a PostgreSQL error, or an empty string if the driver's error has none. */
export const sqlState = (error: SqlError.SqlError): string => {
  const { cause } = error.reason
  if (typeof cause !== "object" || cause === null || !("code" in cause)) return ""
  return typeof cause.code === "string" && SQL_STATE.test(cause.code) ? cause.code : ""
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
