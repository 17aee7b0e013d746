import { PgConnection } from "@effect/sql-pg"
import { Effect, Queue, Redacted, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import { DATABASE, ROLE } from "./Cluster.ts"
import { errnoCode } from "../errnoCode.ts"
import { EmbeddedPostgresFailed } from "./EmbeddedPostgresFailed.ts"
import { type ServerSettings, stopServer } from "./Postmaster.ts"

/**
 * The key of the advisory lock that counts references to the server. Each service holds a connection with a shared
 * lock. PostgreSQL releases the lock however the process ends, so no reference can be stale. The service that can take
 * the exclusive lock is the last one and stops the server; a starting service that finds the lock taken exclusively
 * waits until the server has stopped.
 *
 * The number is "cshd" in ASCII; no other lock of the database has it.
 */
const REFERENCE_LOCK = 0x63736864

/** Longest wait for the trivial queries below, on a local server. */
const QUERY_TIMEOUT = "5 seconds"

/** A reference to the running server, which keeps it running. */
export interface ServerReference {
  readonly connection: PgConnection.PgConnection
  /** Completes when the server has ended, or has closed its connections for crash recovery. */
  readonly lost: Effect.Effect<void>
}

/** Why no reference was acquired: no server listens, or one is starting or stopping. */
type NotAcquired = "absent" | "busy"

const explainFailure = (
  settings: ServerSettings,
  error: SqlError.SqlError
): Effect.Effect<NotAcquired, EmbeddedPostgresFailed> => {
  const { reason } = error
  if (reason._tag === "AuthenticationError" || reason._tag === "AuthorizationError") {
    return new EmbeddedPostgresFailed({
      phrase:
        `the server in ${settings.cluster.directory} rejects the password in countersign-password there: ` +
        "restore the file from a backup",
      cause: error
    })
  }
  const code = errnoCode(reason.cause)
  return Effect.succeed(code === "ENOENT" || code === "ECONNREFUSED" ? "absent" : "busy")
}

const queryLock = Effect.fn("EmbeddedPostgres.queryLock")(function* (
  connection: PgConnection.PgConnection,
  expression: string
) {
  const { rows } = yield* connection.query(`SELECT ${expression} AS answer`, [REFERENCE_LOCK])
  return rows[0]?.["answer"] === true
}, Effect.timeout(QUERY_TIMEOUT))

/** Tries once to acquire a reference, without waiting for a server that is starting. */
export const tryAcquireServer = (
  settings: ServerSettings
): Effect.Effect<ServerReference | NotAcquired, EmbeddedPostgresFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const session = yield* PgConnection.make({
      host: settings.host,
      port: settings.cluster.port,
      username: ROLE,
      password: Redacted.make(Redacted.value(settings.cluster.password)),
      database: DATABASE,
      ssl: false,
      connectTimeout: QUERY_TIMEOUT,
      applicationName: "countersign holder"
    })
    const connection = yield* session.pin
    if (!(yield* queryLock(connection, "pg_try_advisory_lock_shared($1::bigint)"))) return "busy" as const
    const queue = yield* connection.listen("countersign_holder")
    return { connection, lost: Effect.ignore(Effect.forever(Queue.take(queue))) }
  }).pipe(
    Effect.catchTags({
      SqlError: (error) => explainFailure(settings, error),
      TimeoutError: () => Effect.succeed("busy" as const)
    })
  )

/** Releases a reference and stops the server if it was the last one. A lost connection has released its lock already. */
export const releaseServer = (settings: ServerSettings, reference: ServerReference): Effect.Effect<void> =>
  Effect.gen(function* () {
    yield* queryLock(reference.connection, "pg_advisory_unlock_shared($1::bigint)")
    // The exclusive lock is kept until the server has stopped, so that starting services wait for that.
    if (yield* queryLock(reference.connection, "pg_try_advisory_lock($1::bigint)"))
      yield* stopServer(settings)
  }).pipe(
    Effect.catchTags({
      SqlError: () => Effect.void,
      TimeoutError: () => Effect.logWarning("The embedded PostgreSQL does not respond; leaving it running"),
      EmbeddedPostgresFailed: (error) =>
        Effect.logWarning(`Leaving the embedded PostgreSQL running: ${error.phrase}`)
    })
  )
