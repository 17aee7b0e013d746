import { Context, Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { CurrentPrincipal } from "../../../api/Authorization.ts"
import { makeKeyedSemaphore } from "../../admission/KeyedSemaphore.ts"
import { isLargeRequest, LoopTurns, yieldingOnly } from "../../admission/LoopTurns.ts"
import { permitTimeout } from "../databaseErrors.ts"
import { spanName, TransactionCaller } from "./slowStatements.ts"

/**
 * Connections that the transactions of one organization's requests may hold at a time. Transactions that wait for each other's row locks
 * then leave connections for other organizations (a bulkhead).
 */
const MAX_CONNECTIONS_PER_ORGANIZATION = 8

/**
 * Permits that a transaction takes, each factor doubling it: a large request keeps PostgreSQL busy for longer, and
 * while other organizations send requests, one organization gets half of its connections, because all share the
 * processors of PostgreSQL and a burst that opens many connections at once delays everything else.
 */
const LARGE_FACTOR = 2
const COMPANY_FACTOR = 2

/** Transactions of one client, or of several that are counted together. */
interface TransactionLimits {
  waiting: number
  open: number
  readonly permitFor: ReturnType<typeof makeKeyedSemaphore<SqlError.SqlError>>
}

/** The property of a client that holds its limits: two services in one process, each on a client of its own, are limited separately. */
const LIMITS = Symbol.for("countersign/server/store/Database/limitTransactions")

interface LimitedClient {
  readonly [LIMITS]: TransactionLimits
}

const isLimited = (client: object): client is LimitedClient => LIMITS in client

const noLimits = { waiting: 0, open: 0 }

/**
 * Limits and counts the transactions of a client, by replacing its `withTransaction`. A transaction of a request needs one of its
 * organization's permits; background work, which has no principal, needs none. Savepoints need none either. `sharedWith`: a client whose
 * limits also apply to this one.
 */
export const limitTransactions = <Client extends SqlClient.SqlClient>(
  client: Client,
  sharedWith?: SqlClient.SqlClient
): Client => {
  const limits: TransactionLimits =
    sharedWith !== undefined && isLimited(sharedWith)
      ? sharedWith[LIMITS]
      : {
          waiting: 0,
          open: 0,
          permitFor: makeKeyedSemaphore({
            permits: MAX_CONNECTIONS_PER_ORGANIZATION,
            onTimeout: permitTimeout
          })
        }
  const { transactionService, withTransaction } = client

  /** The permit of the current request's organization. Background work, which has no principal, needs none. */
  const withPermit = <R, E, A>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.withFiber((fiber) => {
      const principal = Context.getOrUndefined(fiber.context, CurrentPrincipal)
      if (principal === undefined) return self
      const { org_id } = principal
      const factor = fiber.getRef(LoopTurns).hasCompany(org_id) ? COMPANY_FACTOR : 1
      return Effect.flatMap(isLargeRequest, (isLarge) =>
        limits.permitFor(org_id, isLarge ? factor * LARGE_FACTOR : factor)(self)
      )
    })

  const limited = <R, E, A>(
    self: Effect.Effect<A, E, R>,
    caller: string | undefined
  ): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.suspend(() => {
      let hasStarted = false
      limits.waiting++
      const counted = Effect.suspend(() => {
        hasStarted = true
        limits.waiting--
        limits.open++
        return caller === undefined
          ? yieldingOnly(self)
          : Effect.provideService(yieldingOnly(self), TransactionCaller, caller)
      })
      return Effect.onExit(withPermit(withTransaction(counted)), () =>
        Effect.sync(() => {
          if (hasStarted) limits.open--
          else limits.waiting--
        })
      )
    })

  return Object.assign(client, {
    [LIMITS]: limits,
    withTransaction: <R, E, A>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
      Effect.withFiber((fiber) =>
        Context.getOrUndefined(fiber.context, transactionService) === undefined
          ? limited(self, spanName(fiber))
          : withTransaction(self)
      )
  })
}

/**
 * Current transactions of a client and of the clients that share its limits: `open` have a connection, `waiting` wait
 * for a connection or for a permit of their organization.
 */
export const transactionCounts = (
  client: SqlClient.SqlClient
): { readonly waiting: number; readonly open: number } => {
  const { open, waiting } = isLimited(client) ? client[LIMITS] : noLimits
  return { waiting, open }
}
