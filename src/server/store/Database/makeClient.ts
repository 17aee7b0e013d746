import { PgClient, PgConnection, PgPool } from "@effect/sql-pg"
import { Effect, Predicate, type Scope } from "effect"
import type { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"
import type { ConnectionGroup } from "./ConnectionGroup.ts"
import { makeResponseDeadline, type ResponseDeadline } from "./ResponseDeadline.ts"
import { makeSlowStatementLog } from "./slowStatements.ts"

/** A connection for LISTEN sends no statements. How often per deadline it checks that the server still responds. */
const LISTEN_CHECKS_PER_DEADLINE = 6

/**
 * A client with a pool of connections, as `PgClient.make` makes one, whose connections are closed when the server stops responding on them.
 * `PgClient.make` offers no access to the connections of its pool, so the client is assembled here from the same public parts. `onClose` runs
 * when one of them has closed.
 */
export const makeClient = (
  config: PgClient.PgPoolConfig,
  group: ConnectionGroup,
  responseDeadlineMillis: number,
  onClose?: () => void
): Effect.Effect<PgClient.PgClient, SqlError.SqlError, Scope.Scope | Reactivity.Reactivity> =>
  Effect.gen(function* () {
    const pool = yield* PgPool.make(config)
    const deadline = yield* makeResponseDeadline(
      responseDeadlineMillis,
      yield* makeSlowStatementLog,
      group.closeAll,
      onClose
    )
    yield* group.addPool(deadline.closeAll)
    const guarded = (connection: PgConnection.PgConnection) => new GuardedConnection(connection, deadline)
    const acquirer = Effect.map(pool.get, guarded)
    const client = yield* SqlClient.make({
      driver: "pg",
      acquirer,
      borrower: (use) => pool.use((connection) => use(guarded(connection))),
      transactionAcquirer: Effect.map(pool.reserve, guarded),
      compiler: PgClient.makeCompiler(),
      prepareTransactionControls: true,
      commit,
      releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
      spanAttributes: [["db.system.name", "postgresql"]]
    })
    // A pooler would give the session of LISTEN to other clients.
    const listener = group.usesPooler
      ? Effect.flatMap(PgConnection.make({ ...group.direct, multiplex: false }), ({ pin }) => pin)
      : pool.reserve
    const listen = Effect.fnUntraced(function* (channel: string) {
      const connection = yield* listener
      const notifications = yield* connection.listen(channel)
      yield* deadline.guard(connection, connection.query("SELECT 1"), "SELECT 1").pipe(
        Effect.delay(responseDeadlineMillis / LISTEN_CHECKS_PER_DEADLINE),
        Effect.forever,
        // Passes the failure of the connection to the consumer of the notifications.
        Effect.ignore,
        Effect.forkScoped
      )
      return notifications
    })
    return Object.assign(client, {
      [PgClient.TypeId]: PgClient.TypeId,
      config,
      json: (): never => {
        throw new Error("Not supported: bind JSON.stringify of the value")
      },
      listen,
      notify: (channel: string, payload: string) =>
        Effect.asVoid(
          Effect.scoped(
            Effect.flatMap(acquirer, (connection) =>
              connection.executeRaw("SELECT pg_notify($1, $2)", [channel, payload])
            )
          )
        )
    })
  })

/** Commits. PostgreSQL answers COMMIT with ROLLBACK, and without an error, when the transaction had failed before. */
const commit = (connection: SqlConnection.Connection): Effect.Effect<void, SqlError.SqlError> =>
  Effect.flatMap(connection.executeRaw("COMMIT", []), (result) =>
    Predicate.hasProperty(result, "command") && result.command === "ROLLBACK"
      ? Effect.fail(
          new SqlError.SqlError({
            reason: new SqlError.UnknownError({
              cause: new Error("The transaction had failed, so COMMIT rolled it back"),
              message: "The transaction had failed, so COMMIT rolled it back",
              operation: "commit"
            })
          })
        )
      : Effect.void
  )

/** A connection whose statements have a deadline. It transforms no rows, because the client is made without transformations. */
class GuardedConnection implements SqlConnection.Connection {
  readonly #connection: PgConnection.PgConnection
  readonly #deadline: ResponseDeadline

  constructor(connection: PgConnection.PgConnection, deadline: ResponseDeadline) {
    this.#connection = connection
    this.#deadline = deadline
  }

  execute(sql: string, params: ReadonlyArray<unknown>) {
    return Effect.map(this.executeRaw(sql, params), ({ rows }) => rows)
  }

  executeRaw(sql: string, params: ReadonlyArray<unknown>) {
    return this.#deadline.guard(this.#connection, this.#connection.query(sql, params), sql)
  }

  executeUnprepared(sql: string, params: ReadonlyArray<unknown>) {
    const statement = this.#connection.query(sql, params, false)
    return Effect.map(this.#deadline.guard(this.#connection, statement, sql), ({ rows }) => rows)
  }

  executeValues(sql: string, params: ReadonlyArray<unknown>) {
    return this.#deadline.guard(this.#connection, this.#connection.queryValues(sql, params), sql)
  }

  executeValuesUnprepared(sql: string, params: ReadonlyArray<unknown>) {
    return this.#deadline.guard(this.#connection, this.#connection.queryValues(sql, params, false), sql)
  }

  /** Without a deadline, because the consumer determines how fast rows are read. */
  executeStream(sql: string, params: ReadonlyArray<unknown>) {
    return this.#connection.stream(sql, params)
  }
}
