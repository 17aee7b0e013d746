/**
 * Transactions: nested ones are savepoints, lost races are retried, last writes run before the commit, and hooks after the end.
 *
 * Effects that only follow a commit are registered with `SqlClient.afterCommit` of the library. `onCompletion` is our own, because the
 * delivery queue also needs to be notified of a rollback, which the library does not report.
 */
import { Array as Arr, Cause, Context, Effect, Exit, Order } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { dieOnDatabaseError } from "./databaseErrors.ts"

/** Runs when a transaction has ended: with true if it is known to have committed, else with false. */
type CompletionHook = (committed: boolean) => Effect.Effect<void>

/** The tables of rows that many transactions write, in the order in which each of them locks them. */
const LAST_TABLES = ["secret_changes", "audit_heads"] as const

type LastTable = (typeof LAST_TABLES)[number]

/** A write that a transaction makes right before its commit. */
interface LastWrite {
  readonly table: LastTable
  /** The organization whose row of the table it locks. */
  readonly org_id: OrgId
  /** Executes all writes of a transaction to this table and organization by one statement. */
  readonly executeAll: (
    writes: Arr.NonEmptyReadonlyArray<LastWrite>
  ) => Effect.Effect<unknown, SqlError.SqlError, SqlClient.SqlClient>
}

/** The work at the end of a transaction. */
interface OpenTransaction {
  readonly hooks: Array<CompletionHook>
  readonly writes: Array<LastWrite>
}

/** The current transaction; undefined outside a transaction. */
const CurrentTransaction = Context.Reference<OpenTransaction | undefined>(
  "countersign/server/store/transaction/CurrentTransaction",
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
) => Effect.flatMap(CurrentTransaction, (outer) => (outer === undefined ? alone : inSavepoint(self, outer)))

const outermost = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const current: OpenTransaction = { hooks: [], writes: [] }
    const whole = inTransaction(Effect.tap(self, () => executeLastWrites(current)))
    // Interruption of the caller between the commit and the hooks must not skip the hooks.
    return Effect.uninterruptibleMask((restore) =>
      Effect.onExit(restore(Effect.provideService(whole, CurrentTransaction, current)), (exit) =>
        runHooks(current.hooks, Exit.isSuccess(exit))
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
  CurrentTransaction,
  (current) => current !== undefined
)

/**
 * Makes a function that adds a write of an organization to the current transaction, which executes it right before its commit: `statement`
 * gets the items of all its writes to this table and organization. It is for rows that many transactions write: each locks them last, and
 * in one order, so that it holds them for the commit only, and none deadlocks over them. A savepoint that is rolled back drops its writes.
 * Outside a transaction it is a defect.
 */
export const makeLastWrite = <Item extends object>(
  table: LastTable,
  statement: (
    org_id: OrgId,
    items: ReadonlyArray<Item>
  ) => Effect.Effect<unknown, SqlError.SqlError, SqlClient.SqlClient>
) => {
  const itemOf = new WeakMap<LastWrite, Item>()
  const executeAll: LastWrite["executeAll"] = (writes) =>
    statement(
      writes[0].org_id,
      writes.flatMap((write) => itemOf.get(write) ?? [])
    )
  return (org_id: OrgId, item: Item): Effect.Effect<void> =>
    Effect.flatMap(CurrentTransaction, (current) => {
      if (current === undefined) return requireTransaction
      const write = { table, org_id, executeAll }
      itemOf.set(write, item)
      return Effect.sync(() => void current.writes.push(write))
    })
}

const byLock = Order.combine<LastWrite>(
  Order.mapInput(Order.Number, ({ table }) => LAST_TABLES.indexOf(table)),
  Order.mapInput(Order.String, ({ org_id }) => org_id)
)

/** Writes of one row stay in the order in which they were added. */
const executeLastWrites = ({ writes }: OpenTransaction) => {
  const groups = Map.groupBy(writes.toSorted(byLock), ({ org_id, table }) => `${table} ${org_id}`)
  return Effect.forEach(
    groups.values(),
    (group) => (Arr.isArrayNonEmpty(group) ? group[0].executeAll(group) : Effect.void),
    { discard: true }
  )
}

/**
 * Runs a hook when the current transaction, or the current savepoint if that is rolled back, has ended. Hooks run in the order of their
 * registration, after the effects of `SqlClient.afterCommit`. Outside a transaction the hook runs immediately, with true.
 *
 * Only for `delivery/Delivery/DeliveryQueue.ts`, which must end its tracked read of the queue after a rollback too. All other code uses
 * `SqlClient.afterCommit`.
 */
export const onCompletion = (hook: CompletionHook): Effect.Effect<void> =>
  Effect.flatMap(CurrentTransaction, (current) =>
    current === undefined ? hook(true) : Effect.sync(() => void current.hooks.push(hook))
  )

/**
 * Runs an effect after the current transaction has committed, and never if it rolls back; immediately outside a
 * transaction. The effect runs outside the transaction, so its writes are in a transaction of their own.
 */
export const afterCommit = (effect: Effect.Effect<void>): Effect.Effect<void, never, SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    // The library runs the effect without the ended transaction, but with this reference as it was at registration.
    sql.afterCommit(Effect.provideService(effect, CurrentTransaction, undefined))
  )

/** Dies if no transaction is open: for writes that must commit or roll back with the caller's. */
export const requireTransaction: Effect.Effect<void> = Effect.flatMap(isInTransaction, (inside) =>
  inside ? Effect.void : Effect.die(new Error("This write needs an open transaction of its caller"))
)

const runHooks = (hooks: ReadonlyArray<CompletionHook>, committed: boolean) =>
  Effect.forEach(hooks, (hook) => hook(committed), { discard: true })

/** A savepoint that is rolled back drops its last writes, and runs the hooks that were registered in it with false. */
const inSavepoint = <A, E, R>(self: Effect.Effect<A, E, R>, { hooks, writes }: OpenTransaction) =>
  Effect.suspend(() => {
    const [hooksBefore, writesBefore] = [hooks.length, writes.length]
    return Effect.onError(inTransaction(self), () =>
      Effect.suspend(() => {
        writes.splice(writesBefore)
        return runHooks(hooks.splice(hooksBefore), false)
      })
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
