import { Cause, Context, Effect, Exit, Option } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { CurrentPrincipal } from "../../../api/Authorization.ts"
import { dieOnDatabaseError } from "./databaseErrors.ts"
import { makeKeyedSemaphore } from "../../concurrency/KeyedSemaphore.ts"

/**
 * Connections that the transactions of one organization's requests may hold at once: where they wait for each other's rows, those of others
 * go on.
 */
const MAX_CONNECTIONS_EACH = 8

/** What hears of the end of a transaction. */
type CompletionHook = (committed: boolean) => Effect.Effect<void>

/** What is to run once the transaction at hand has ended; undefined outside of one. */
const CompletionHooks = Context.Reference<Array<CompletionHook> | undefined>(
  "countersign/server/store/Database/transaction/EndHooks",
  {
    defaultValue: () => undefined
  }
)

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
) => Effect.flatMap(CompletionHooks, (outer) => (outer === undefined ? alone : inSavepoint(self, outer)))

const outermost = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const hooks: Array<CompletionHook> = []
    // A caller that goes away between the commit and the hooks must not take them with it.
    return Effect.uninterruptibleMask((restore) =>
      Effect.onExit(restore(Effect.provideService(watched(self), CompletionHooks, hooks)), (exit) =>
        runHooks(hooks, Exit.isSuccess(exit))
      )
    )
  })

/** `transaction` for a service that holds the client: what none of its callers can act on dies, and only domain errors are left. */
export const atomic =
  (sql: SqlClient.SqlClient) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    withoutStoreFaults(sql, transaction(self))

/** The same for what takes from a source that gives everything once: it is not run again. */
export const atomicWithoutRetry =
  (sql: SqlClient.SqlClient) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    withoutStoreFaults(sql, joined(self, outermost(self)))

const withoutStoreFaults = <A, E, R>(sql: SqlClient.SqlClient, self: Effect.Effect<A, E, R>) =>
  Effect.provideService(dieOnDatabaseError(self), SqlClient.SqlClient, sql)

/** Whether a transaction is open. */
export const isInTransaction: Effect.Effect<boolean> = Effect.map(
  CompletionHooks,
  (hooks) => hooks !== undefined
)

/**
 * Runs once the transaction at hand, or the savepoint, has ended: with true if it is known to have committed, else with false. Outside
 * of one, at once and with true.
 */
export const onCompletion = (hook: CompletionHook): Effect.Effect<void> =>
  Effect.flatMap(CompletionHooks, (hooks) =>
    hooks === undefined ? hook(true) : Effect.sync(() => void hooks.push(hook))
  )

/** Runs an effect once the transaction at hand has committed, and never if it does not; outside of one, at once. */
export const afterCommit = (effect: Effect.Effect<void>): Effect.Effect<void> =>
  onCompletion((committed) => (committed ? effect : Effect.void))

/** The same for what is done at once: one step of its fiber, on the path of every request. */
export const afterCommitSync = (run: () => void): Effect.Effect<void> =>
  Effect.withFiberSucceed((fiber) => {
    const hooks = fiber.getRef(CompletionHooks)
    if (hooks === undefined) run()
    else hooks.push((committed) => (committed ? Effect.sync(run) : Effect.void))
  })

/** Dies where no transaction is open: for what must stand or fall with the caller's changes. */
export const requireTransaction: Effect.Effect<void> = Effect.flatMap(isInTransaction, (inside) =>
  inside ? Effect.void : Effect.die(new Error("This is written within its caller's transaction"))
)

const runHooks = (hooks: ReadonlyArray<CompletionHook>, committed: boolean) =>
  Effect.forEach(hooks, (hook) => hook(committed), { discard: true })

/** A savepoint that is rolled back is the end of what was done in it. */
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

/** What a service has under way at its store. */
interface Ledger {
  waiting: number
  open: number
  readonly turnOf: ReturnType<typeof makeKeyedSemaphore>
}

/** By client: two services in one process, each on a client of its own, count apart, as two processes would. */
const ledgers = new WeakMap<SqlClient.SqlClient, Ledger>()

const ledgerOf = (sql: SqlClient.SqlClient): Ledger => {
  const known = ledgers.get(sql) ?? { waiting: 0, open: 0, turnOf: makeKeyedSemaphore(MAX_CONNECTIONS_EACH) }
  ledgers.set(sql, known)
  return known
}

/** Counts the transactions of a second client with those of the first. */
export const countTogether = (first: SqlClient.SqlClient, second: SqlClient.SqlClient): void =>
  void ledgers.set(second, ledgerOf(first))

/**
 * Transactions of this client, and of those beside it, that wait for a connection, or for their turn to have one, and those that have
 * one.
 */
export const transactionCounts = (
  sql: SqlClient.SqlClient
): { readonly waiting: number; readonly open: number } => {
  const { open, waiting } = ledgerOf(sql)
  return { waiting, open }
}

/** In a turn of the organization whose request is answered; what nobody asked for needs none. */
const inTurn = <A, E, R>(
  { turnOf }: Ledger,
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError.SqlError, R> =>
  Effect.flatMap(Effect.serviceOption(CurrentPrincipal), (principal) =>
    Option.isNone(principal) ? self : turnOf(principal.value.org_id)(self)
  )

/** `inTransaction`, in turn and counted. */
const watched = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => {
    const ledger = ledgerOf(sql)
    let begun = false
    ledger.waiting++
    const counted = Effect.suspend(() => {
      begun = true
      ledger.waiting--
      ledger.open++
      return self
    })
    return Effect.onExit(inTurn(ledger, inTransaction(counted)), () =>
      Effect.sync(() => {
        if (begun) ledger.open--
        else ledger.waiting--
      })
    )
  })

const isLostRace = (error: unknown): boolean =>
  SqlError.isSqlError(error) &&
  (error.reason._tag === "DeadlockError" || error.reason._tag === "SerializationError")
