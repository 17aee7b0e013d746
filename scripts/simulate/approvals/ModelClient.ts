import { PgClient } from "@effect/sql-pg"
import { Effect, Queue, type Scope, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError, Statement } from "effect/sql"
import { limitTransactions } from "../../../src/server/store/Database/limitTransactions.ts"
import { sqlError, type Statement as StoreStatement } from "../core/Store.ts"
import type { Connection, StoreClient } from "../core/StoreClient.ts"
import type { Notifications } from "../core/Notifications.ts"
import type { ApprovalModel } from "./ApprovalModel.ts"
import { statementOf } from "./statements.ts"

/** As in `Database.ts`. */
const LOCK_MILLIS = 2_000

/** How often a connection for LISTEN checks that the server still responds, in milliseconds: as in `makeClient.ts`. */
const LISTEN_CHECK_MILLIS = 2_000

type Rows = ReadonlyArray<object>

const nothing: StoreStatement<Rows> = function* () {
  yield { _tag: "Pause" }
  return []
}

/** The payload of a channel, as the model of NOTIFY carries it. */
const prefixOf = (channel: string): string => `${channel}:`

/**
 * The SQL client of the service over the model of the store. Only the connections are simulated: transactions, hooks after a commit and the
 * limits of transactions are the code of the service and of the library.
 */
export const makeModelClient = (
  model: ApprovalModel,
  client: StoreClient,
  notifications: Notifications
): Effect.Effect<PgClient.PgClient, never, Scope.Scope> =>
  Effect.gen(function* () {
    const acquirer = Effect.map(client.lease, (connection) => new ModelConnection(model, connection))
    const sql = yield* Effect.provide(
      SqlClient.make({
        driver: "pg",
        acquirer,
        transactionAcquirer: acquirer,
        compiler: PgClient.makeCompiler(),
        prepareTransactionControls: true,
        spanAttributes: []
      }),
      Reactivity.layer
    )
    model.notify = (transaction, channel, payloads) =>
      notifications.notify(
        transaction,
        payloads.map((payload) => prefixOf(channel) + payload)
      )
    const listen = Effect.fnUntraced(function* (channel: string) {
      const connection = yield* client.lease
      const queue = yield* Queue.unbounded<
        { readonly processId: number; readonly channel: string; readonly payload: string },
        SqlError.SqlError
      >()
      const prefix = prefixOf(channel)
      notifications.listen(connection, (payload) => {
        if (!payload.startsWith(prefix)) return
        Queue.offerUnsafe(queue, { processId: 0, channel, payload: payload.slice(prefix.length) })
      })
      const lost = Effect.callback<void>((resume) => connection.onClose(() => resume(Effect.void)))
      yield* Effect.forkScoped(Effect.andThen(lost, Queue.fail(queue, sqlError("ConnectionError"))))
      yield* new ModelConnection(model, connection).ping.pipe(
        Effect.delay(LISTEN_CHECK_MILLIS),
        Effect.forever,
        Effect.ignore,
        Effect.forkScoped
      )
      return queue
    })
    return limitTransactions(
      Object.assign(sql, {
        [PgClient.TypeId]: PgClient.TypeId,
        config: {},
        json: () => Statement.fragment([]),
        listen,
        notify: () => Effect.die(new Error("The service notifies by a statement"))
      })
    )
  })

/** A connection for as long as somebody holds it. */
class ModelConnection implements SqlConnection.Connection {
  readonly #model: ApprovalModel
  readonly #connection: Connection
  #state: "None" | "Open" | "Failed" = "None"
  #lockMillis = LOCK_MILLIS

  constructor(model: ApprovalModel, connection: Connection) {
    this.#model = model
    this.#connection = connection
  }

  execute(sql: string, parameters: ReadonlyArray<unknown>): Effect.Effect<Rows, SqlError.SqlError> {
    return Effect.suspend(() => this.#execute(sql, parameters))
  }

  executeRaw(sql: string, parameters: ReadonlyArray<unknown>) {
    return this.execute(sql, parameters)
  }

  executeUnprepared(sql: string, parameters: ReadonlyArray<unknown>) {
    return this.execute(sql, parameters)
  }

  executeValues() {
    return unsupported
  }

  executeValuesUnprepared() {
    return unsupported
  }

  executeStream() {
    return unsupportedStream
  }

  get ping(): Effect.Effect<void, SqlError.SqlError> {
    return Effect.asVoid(this.#send(nothing, false))
  }

  #execute(sql: string, parameters: ReadonlyArray<unknown>): Effect.Effect<Rows, SqlError.SqlError> {
    switch (sql) {
      case "BEGIN":
        this.#state = "Open"
        this.#lockMillis = LOCK_MILLIS
        return this.#send(nothing, true)
      case "COMMIT":
        return this.#state === "Failed" ? Effect.andThen(this.#end("rollback"), aborted) : this.#end("commit")
      case "ROLLBACK":
        return this.#end("rollback")
      default:
        if (sql.startsWith("SAVEPOINT")) return Effect.die(new Error("The model has no savepoints"))
        if (this.#state === "Failed") return aborted
        if (sql.startsWith("SET LOCAL lock_timeout = 0")) this.#lockMillis = 0
        return this.#send(statementOf(this.#model, sql, parameters), this.#state === "Open")
    }
  }

  #send(statement: StoreStatement<Rows>, explicit: boolean): Effect.Effect<Rows, SqlError.SqlError> {
    return Effect.callback((resume) => {
      let isOver = false
      let onEnd = () => {}
      if (!this.#connection.isOpen) return resume(Effect.fail(sqlError("ConnectionError")))
      const cancel = this.#connection.send(
        statement,
        { lockMillis: this.#lockMillis, explicit },
        (result) => {
          isOver = true
          if ("error" in result) {
            if (this.#state === "Open") this.#state = "Failed"
            resume(Effect.fail(result.error))
          } else resume(Effect.succeed(result.value))
          onEnd()
        }
      )
      // An interrupted statement is cancelled, and its answer is awaited: the connection carries one statement at a time.
      return Effect.callback<void>((resume) => {
        if (isOver) return resume(Effect.void)
        onEnd = () => resume(Effect.void)
        cancel()
      })
    })
  }

  #end(how: "commit" | "rollback"): Effect.Effect<Rows, SqlError.SqlError> {
    return Effect.callback((resume) => {
      const hasFailed = this.#state === "Failed"
      this.#state = "None"
      if (!this.#connection.isOpen) return resume(Effect.fail(sqlError("ConnectionError")))
      // The server has rolled back a transaction whose statement failed; it has nothing to end.
      if (hasFailed) return resume(Effect.succeed([]))
      this.#connection.end(how, (result) =>
        resume("error" in result ? Effect.fail(result.error) : Effect.succeed([]))
      )
    })
  }
}

const aborted = Effect.fail(
  new SqlError.SqlError({
    reason: new SqlError.UnknownError({
      cause: new Error("The transaction has failed"),
      message: "The transaction has failed",
      operation: "execute"
    })
  })
)

const UNSUPPORTED = new Error("The service reads rows as objects, and does not stream them")
const unsupported = Effect.die(UNSUPPORTED)
const unsupportedStream = Stream.die(UNSUPPORTED)
