/**
 * Transactions: nested ones are savepoints, lost races are retried, and hooks run at the end.
 *
 * Effects that only follow a commit are registered with `SqlClient.afterCommit` of the library. `onCompletion` is our own, because the
 * delivery queue also needs to be notified of a rollback, which the library does not report.
 */
import { Cause, Context, Effect, Exit } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { dieOnDatabaseError } from "./databaseErrors.ts"

/** Runs when a transaction has ended: with true if it is known to have committed, else with false. */
type CompletionHook = (committed: boolean) => Effect.Effect<void>

/** The completion hooks of the current transaction; undefined outside a transaction. */
const CompletionHooks = Context.Reference<Array<CompletionHook> | undefined>(
  "countersign/server/store/transaction/CompletionHooks",
  {
    defaultValue: () => undefined
  }
)

/** Retries of a transaction that PostgreSQL rolled back because of a deadlock or a serialization failure. */
const RACE_RETRIES = 3

/**
 * Runs an effect in one transaction, or in a savepoint if a transaction is open. A connection that is lost during the
 * transaction fails with its `SqlError`; the library's client reports it as a defect. Deadlocks and serialization
 * failures, which roll back the whole transaction, are retried three times.
 */
export const transaction = <A, E, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError.SqlError, R | SqlClient.SqlClient> =>
  joined(self, Effect.retry(outermost(self), { while: isLostRace, times: RACE_RETRIES }))

/** Runs `self` in a savepoint of the current transaction, or runs `alone` if no transaction is open. */
const joined = <A, E, R>(
  self: Effect.Effect<A, E, R>,
  alone: Effect.Effect<A, E | SqlError.SqlError, R | SqlClient.SqlClient>
) => Effect.flatMap(CompletionHooks, (outer) => (outer === undefined ? alone : inSavepoint(self, outer)))

const outermost = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const hooks: Array<CompletionHook> = []
    // Interruption of the caller between the commit and the hooks must not skip the hooks.
    return Effect.uninterruptibleMask((restore) =>
      Effect.onExit(restore(Effect.provideService(inTransaction(self), CompletionHooks, hooks)), (exit) =>
        runHooks(hooks, Exit.isSuccess(exit))
      )
    )
  })

/**
 * `transaction` on a client, for services: database errors, which no caller can handle, become defects, so that only domain errors are left
 * in the error channel.
 */
export const atomic =
  (sql: SqlClient.SqlClient) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    onClient(sql, transaction(self))

/** `atomic` without retries, for an effect that consumes a source which can be read only once, such as a request's stream. */
export const atomicWithoutRetry =
  (sql: SqlClient.SqlClient) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    onClient(sql, joined(self, outermost(self)))

const onClient = <A, E, R>(sql: SqlClient.SqlClient, self: Effect.Effect<A, E, R>) =>
  Effect.provideService(dieOnDatabaseError(self), SqlClient.SqlClient, sql)

/** Whether a transaction is open. */
export const isInTransaction: Effect.Effect<boolean> = Effect.map(
  CompletionHooks,
  (hooks) => hooks !== undefined
)

/**
 * Runs a hook when the current transaction, or the current savepoint if that is rolled back, has ended. Hooks run in the order of their
 * registration, after the effects of `SqlClient.afterCommit`. Outside a transaction the hook runs immediately, with true.
 *
 * Only for `delivery/Delivery/DeliveryQueue.ts`, which must end its tracked read of the queue after a rollback too. All other code uses
 * `SqlClient.afterCommit`.
 */
export const onCompletion = (hook: CompletionHook): Effect.Effect<void> =>
  Effect.flatMap(CompletionHooks, (hooks) =>
    hooks === undefined ? hook(true) : Effect.sync(() => void hooks.push(hook))
  )

/**
 * Runs an effect after the current transaction has committed, and never if it rolls back; immediately outside a
 * transaction. The effect runs outside the transaction, so its writes are in a transaction of their own.
 */
export const afterCommit = (effect: Effect.Effect<void>): Effect.Effect<void, never, SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    // The library runs the effect without the ended transaction, but with this reference as it was at registration.
    sql.afterCommit(Effect.provideService(effect, CompletionHooks, undefined))
  )

/** Dies if no transaction is open: for writes that must commit or roll back with the caller's. */
export const requireTransaction: Effect.Effect<void> = Effect.flatMap(isInTransaction, (inside) =>
  inside ? Effect.void : Effect.die(new Error("This write needs an open transaction of its caller"))
)

const runHooks = (hooks: ReadonlyArray<CompletionHook>, committed: boolean) =>
  Effect.forEach(hooks, (hook) => hook(committed), { discard: true })

/** A savepoint that is rolled back runs the hooks that were registered in it, with false. */
const inSavepoint = <A, E, R>(self: Effect.Effect<A, E, R>, hooks: Array<CompletionHook>) =>
  Effect.suspend(() => {
    const before = hooks.length
    return Effect.onError(inTransaction(self), () =>
      Effect.suspend(() => runHooks(hooks.splice(before), false))
    )
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

/** Whether a transaction or a statement failed because of a deadlock or a serialization failure. */
export const isLostRace = (error: unknown): boolean =>
  SqlError.isSqlError(error) &&
  (error.reason._tag === "DeadlockError" || error.reason._tag === "SerializationError")
