import { PgClient } from "@effect/sql-pg"
import { Cause, Context, Effect, Exit, Layer, Option, type Redacted, Schema } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { CurrentPrincipal } from "../api/Authorization.ts"
import { timeOrdered } from "../domain/Ids.ts"
import { makeTurns } from "./Database/turns.ts"

/** Connections of the callers' pool, transactions and listeners included. */
export const MAX_CONNECTIONS = 12

/**
 * Connections that the transactions of one organization's requests may hold at once: where they wait for each other's rows, those of others
 * go on.
 */
const MAX_CONNECTIONS_EACH = 8

/** The longest that a statement waits for what another transaction holds; then the request is answered 503. */
const LOCK_TIMEOUT_MILLIS = 2_000

/** After which a connection that nobody uses is closed. */
const IDLE_TIMEOUT = "60 seconds"

/**
 * The largest row that is read. Two examples side by side have an input and an answer of 4 MiB each, and numbers such as 1e20 are five
 * times as long in the store as they were sent. A row that is larger ends its connection, with the statements of others on it.
 */
const MAX_MESSAGE_BYTES = 128 * 2 ** 20

/** How to reach the store, and how much of it one process may take. */
export interface DatabaseOptions {
  /** `postgres://…`; PostgreSQL 15 or newer. */
  readonly url: Redacted.Redacted
  /** Connections of the pool, transactions and listeners included. Default 12. */
  readonly maxConnections?: number
  /** Longest statement, in milliseconds; a longer one is cancelled and answered 503. Default 15,000. */
  readonly statementTimeoutMillis?: number
}

/**
 * The client every service shares. Statements outside transactions are pipelined over the pool's connections;
 * a transaction, a stream and a listener each reserve one.
 */
export const layer = (
  options: DatabaseOptions
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError.SqlError> =>
  PgClient.layer({
    url: options.url,
    // Of its own in each process: metrics tell its connections from those of others by it.
    applicationName: `countersign ${timeOrdered().slice(-8)}`,
    maxConnections: options.maxConnections ?? MAX_CONNECTIONS,
    connectTimeout: "5 seconds",
    idleTimeout: IDLE_TIMEOUT,
    multiplex: true,
    // A statement that is slow holds up at most these many others.
    multiplexConcurrency: 16,
    maxMessageSize: MAX_MESSAGE_BYTES,
    startupParameters: {
      // Every statement here goes by an index. A plan that was made while a table was empty must not read it whole once it has
      // grown, until the next ANALYZE: that has cost seconds. Where no index fits, the penalty alone would have JIT compile.
      enable_seqscan: "off",
      jit: "off",
      statement_timeout: String(options.statementTimeoutMillis ?? 15_000),
      lock_timeout: String(LOCK_TIMEOUT_MILLIS),
      idle_in_transaction_session_timeout: "30000",
      timezone: "UTC"
    }
  })

/**
 * So many connections of their own to the store of the client at hand: for what must not wait for the callers' transactions, nor have
 * them wait. Each carries one statement at a time. Sharing them, the pool would put statements on the first one until it is full, and a
 * read would wait there for the commit before it; nor could a statement that takes too long be cancelled. A row that is held is waited
 * for as long as any statement may take.
 */
export const layerBeside = (
  maxConnections: number
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError.SqlError, PgClient.PgClient> =>
  Layer.unwrap(
    Effect.map(PgClient.PgClient, ({ config }) =>
      PgClient.layer({
        ...config,
        idleTimeout: IDLE_TIMEOUT,
        maxConnections,
        multiplex: false,
        startupParameters: { ...config.startupParameters, lock_timeout: "0" }
      })
    )
  )

/** What hears of the end of a transaction. */
type EndHook = (committed: boolean) => Effect.Effect<void>

/** What is to run once the transaction at hand has ended; undefined outside of one. */
const EndHooks = Context.Reference<Array<EndHook> | undefined>("countersign/server/EndHooks", {
  defaultValue: () => undefined
})

/** How often a transaction that lost a race for locks is run again before its caller hears of it. */
const RACE_RETRIES = 3

/**
 * Runs an effect in one transaction; within another it is a savepoint of that. A connection that is lost on the way surfaces as
 * the `SqlError` that it is (the client itself reports a defect), so that callers see a typed failure. Deadlocks and serialization
 * failures, which roll everything back, are tried again.
 */
export const transaction = <A, E, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError.SqlError, R | SqlClient.SqlClient> =>
  joined(self, Effect.retry(outermost(self), { while: isLostRace, times: RACE_RETRIES }))

/** A savepoint of the transaction that is open; where none is, `alone`. */
const joined = <A, E, R>(
  self: Effect.Effect<A, E, R>,
  alone: Effect.Effect<A, E | SqlError.SqlError, R | SqlClient.SqlClient>
) => Effect.flatMap(EndHooks, (outer) => (outer === undefined ? alone : inSavepoint(self, outer)))

const outermost = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const hooks: Array<EndHook> = []
    // A caller that goes away between the commit and the hooks must not take them with it.
    return Effect.uninterruptibleMask((restore) =>
      Effect.onExit(restore(Effect.provideService(watched(self), EndHooks, hooks)), (exit) =>
        tell(hooks, Exit.isSuccess(exit))
      )
    )
  })

const turnOf = makeTurns(MAX_CONNECTIONS_EACH)

/** In a turn of the organization whose request is answered; what nobody asked for needs none. */
const inTurn = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
  Effect.flatMap(Effect.serviceOption(CurrentPrincipal), (principal) =>
    Option.isNone(principal) ? self : turnOf(principal.value.org_id)(self)
  )

/** `transaction` for a service that holds the client: what none of its callers can act on dies, and only domain errors are left. */
export const atomic =
  (sql: SqlClient.SqlClient) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    withoutStoreFaults(sql, transaction(self))

/** The same for what takes from a source that gives everything once: it is not run again. */
export const atomicOnce =
  (sql: SqlClient.SqlClient) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    withoutStoreFaults(sql, joined(self, outermost(self)))

const withoutStoreFaults = <A, E, R>(
  sql: SqlClient.SqlClient,
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError | Schema.SchemaError>, Exclude<R, SqlClient.SqlClient>> =>
  self.pipe(
    Effect.catch((error) =>
      isStoreFault(error)
        ? Effect.die(error)
        : // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a guard does not narrow an open type; this is the rest of `E`
          Effect.fail(error as Exclude<E, SqlError.SqlError | Schema.SchemaError>)
    ),
    Effect.provideService(SqlClient.SqlClient, sql)
  )

const isStoreFault = (error: unknown): error is SqlError.SqlError | Schema.SchemaError =>
  SqlError.isSqlError(error) || Schema.isSchemaError(error)

/** Whether a transaction is open. */
export const isInTransaction: Effect.Effect<boolean> = Effect.map(EndHooks, (hooks) => hooks !== undefined)

/**
 * Runs once the transaction at hand, or the savepoint, has ended: with true if it is known to have committed, else with false. Outside
 * of one, at once and with true.
 */
export const atEnd = (hook: EndHook): Effect.Effect<void> =>
  Effect.flatMap(EndHooks, (hooks) =>
    hooks === undefined ? hook(true) : Effect.sync(() => void hooks.push(hook))
  )

/** Runs an effect once the transaction at hand has committed, and never if it does not; outside of one, at once. */
export const afterCommit = (effect: Effect.Effect<void>): Effect.Effect<void> =>
  atEnd((committed) => (committed ? effect : Effect.void))

/** The same for what is done at once: one step of its fiber, on the path of every request. */
export const afterCommitSync = (run: () => void): Effect.Effect<void> =>
  Effect.withFiberSucceed((fiber) => {
    const hooks = fiber.getRef(EndHooks)
    if (hooks === undefined) run()
    else hooks.push((committed) => (committed ? Effect.sync(run) : Effect.void))
  })

/** Dies where no transaction is open: for what must stand or fall with the caller's changes. */
export const inCallersTransaction: Effect.Effect<void> = Effect.flatMap(isInTransaction, (inside) =>
  inside ? Effect.void : Effect.die(new Error("This is written within its caller's transaction"))
)

const tell = (hooks: ReadonlyArray<EndHook>, committed: boolean) =>
  Effect.forEach(hooks, (hook) => hook(committed), { discard: true })

/** A savepoint that is rolled back is the end of what was done in it. */
const inSavepoint = <A, E, R>(self: Effect.Effect<A, E, R>, hooks: Array<EndHook>) =>
  Effect.suspend(() => {
    const before = hooks.length
    return Effect.onError(inTransaction(self), () => Effect.suspend(() => tell(hooks.splice(before), false)))
  })

const inTransaction = <A, E, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError.SqlError, R | SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(self)).pipe(
    Effect.catchCause((cause: Cause.Cause<E | SqlError.SqlError>) => {
      for (const reason of cause.reasons) {
        if (Cause.isDieReason(reason) && SqlError.isSqlError(reason.defect)) return Effect.fail(reason.defect)
      }
      return Effect.failCause(cause)
    })
  )

let waiting = 0
let open = 0

/** Transactions of this process that wait for a connection, or for their turn to have one, and those that have one. */
export const openTransactions = (): { readonly waiting: number; readonly open: number } => ({ waiting, open })

/** `inTransaction`, counted. */
const watched = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    let begun = false
    waiting++
    const counted = Effect.suspend(() => {
      begun = true
      waiting--
      open++
      return self
    })
    return Effect.onExit(inTurn(inTransaction(counted)), () =>
      Effect.sync(() => {
        if (begun) open--
        else waiting--
      })
    )
  })

const isLostRace = (error: unknown): boolean =>
  SqlError.isSqlError(error) &&
  (error.reason._tag === "DeadlockError" || error.reason._tag === "SerializationError")

/**
 * Faults of the store that pass by themselves: no connection, no time, no room, a lost race. The client knows them by their kind alone
 * and takes a server that stops, starts or cuts a connection (57P01 to 57P03), or has no room (class 53), for a fault of the statement.
 */
export const isOutOfReach = (error: SqlError.SqlError): boolean => {
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
