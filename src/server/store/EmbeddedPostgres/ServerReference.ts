import { PgConnection } from "@effect/sql-pg"
import { Effect, Queue, Redacted, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import { DATABASE, ROLE } from "./Cluster.ts"
import { errnoCode } from "../errnoCode.ts"
import { EmbeddedPostgresFailed } from "./EmbeddedPostgresFailed.ts"
import { type ServerSettings, stopServer } from "./Postmaster.ts"

/**
 * Each service that uses the server holds one connection with a shared advisory lock. The lock dies with its process,
 * whatever way that dies, so there is nothing stale to judge: whoever can turn its share into an exclusive lock is
 * the last one, and stops the server. A newcomer that finds the lock taken exclusively waits for the server to be gone.
 *
 * The number is any that no other use of the database takes: "cshd" in ASCII.
 */
const REFERENCE_LOCK = 0x63736864

/** Longest wait for an answer to one of the questions below. The server is local and the questions are trivial. */
const QUERY_TIMEOUT = "5 seconds"

/** A share in the running server. */
export interface ServerReference {
  readonly connection: PgConnection.PgConnection
  /** Ends when the server is gone, or has thrown its connections out to recover from a crash. */
  readonly lost: Effect.Effect<void>
}

/** Why there is no share yet: no server listens, or one does and is starting or stopping. */
type NotAcquired = "absent" | "busy"

const explainFailure = (
  settings: ServerSettings,
  error: SqlError.SqlError
): Effect.Effect<NotAcquired, EmbeddedPostgresFailed> => {
  const { reason } = error
  if (reason._tag === "AuthenticationError" || reason._tag === "AuthorizationError") {
    return new EmbeddedPostgresFailed({
      phrase:
        `the server in ${settings.cluster.directory} refuses the password in countersign-password there: ` +
        "put the file back from a backup",
      cause: error
    })
  }
  const code = errnoCode(reason.cause)
  return Effect.succeed(code === "ENOENT" || code === "ECONNREFUSED" ? "absent" : "busy")
}

const queryLock = Effect.fn("EmbeddedPostgres.ask")(function* (
  connection: PgConnection.PgConnection,
  question: string
) {
  const { rows } = yield* connection.query(`SELECT ${question} AS answer`, [REFERENCE_LOCK])
  return rows[0]?.["answer"] === true
}, Effect.timeout(QUERY_TIMEOUT))

/** One attempt to take a share, without waiting for a server that is on its way. */
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

/** Gives the share back; the last one stops the server. A connection that is lost has nothing to give back. */
export const releaseServer = (settings: ServerSettings, held: ServerReference): Effect.Effect<void> =>
  Effect.gen(function* () {
    yield* queryLock(held.connection, "pg_advisory_unlock_shared($1::bigint)")
    // Kept until the server is down: the lock is what makes newcomers wait.
    if (yield* queryLock(held.connection, "pg_try_advisory_lock($1::bigint)")) yield* stopServer(settings)
  }).pipe(
    Effect.catchTags({
      SqlError: () => Effect.void,
      TimeoutError: () => Effect.logWarning("the embedded PostgreSQL does not answer; it is left running"),
      EmbeddedPostgresFailed: (error) =>
        Effect.logWarning(`the embedded PostgreSQL is left running: ${error.phrase}`)
    })
  )
