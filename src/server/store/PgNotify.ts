/**
 * PostgreSQL's LISTEN/NOTIFY on one channel, between the replicas. Notifications are hints that save time: nothing
 * depends on their arrival. A listener reads the tables itself each time it starts to listen, and also polls them.
 */
import { PgClient } from "@effect/sql-pg"
import { type Cause, type Duration, Effect, type Latch, Queue } from "effect"
import { SqlError } from "effect/sql"
import { runWorker } from "../concurrency/Worker.ts"
import { errorsOf } from "../observability/errorsOf.ts"
import { describeDatabaseError, isDatabaseUnavailable } from "./databaseErrors.ts"
import { textArray } from "./pgArrays.ts"

/** Delay before LISTEN is sent again after its connection was lost. */
const RECONNECT_MILLIS = 200

/** The longest delay before LISTEN is sent again after the server refused it, as a pooler or some compatible databases do. Each refusal doubles it. */
const MAX_REFUSED_MILLIS = 60_000

/** Sends and receives notifications on one channel. */
export interface PgNotify {
  /** Notifies every replica, this one included. A failure is logged at debug level and the notifications are dropped. */
  readonly notify: (payloads: ReadonlyArray<string>) => Effect.Effect<void>
  /**
   * Runs forever: each time `due` opens, notifies with all that `take` returns, but after a notification it waits for
   * `interval` first (a throttle with a leading edge). It runs outside the transactions that the notifications are about
   * and sends a burst in one statement, because a transaction with a NOTIFY takes a server-wide lock while it commits.
   */
  readonly notifyThrottled: (
    due: Latch.Latch,
    interval: Duration.Input,
    take: () => ReadonlyArray<string>
  ) => Effect.Effect<never>
  /**
   * Runs forever, reconnecting when the connection is lost: calls `on` with each payload, and with undefined each time
   * LISTEN begins, because notifications may have been missed before. A server that refuses LISTEN is asked again ever
   * more rarely, and that is logged once: the tables are polled meanwhile.
   */
  readonly listen: (on: (payload: string | undefined) => Effect.Effect<void>) => Effect.Effect<never>
}

/** The notifications of a channel on the current client. A listener reserves one connection of its pool. */
export const makePgNotify = (channel: string): Effect.Effect<PgNotify, never, PgClient.PgClient> =>
  Effect.map(PgClient.PgClient, (pg) => {
    const notify = (payloads: ReadonlyArray<string>) =>
      pg`
        SELECT pg_notify(${channel}, payload)
        FROM unnest(${textArray(payloads)}) AS payload
      `.pipe(
        Effect.catchCause((cause) => Effect.logDebug(`NOTIFY failed on channel ${channel}`, cause)),
        Effect.asVoid
      )
    return {
      notify,
      notifyThrottled: (due, interval, take) =>
        runWorker({
          name: `notify_${channel}`,
          wakeUp: Effect.andThen(Effect.sleep(interval), due.await),
          runOnce: Effect.suspend(() => {
            due.closeUnsafe()
            return notify(take())
          })
        }),
      listen: (on) =>
        Effect.suspend(() => {
          let refusals = 0
          const listenOnce = Effect.scoped(
            Effect.gen(function* () {
              const notifications = yield* pg.listen(channel)
              refusals = 0
              yield* on(undefined)
              return yield* Effect.forever(
                Effect.flatMap(Queue.take(notifications), ({ payload }) => on(payload))
              )
            })
          )
          const logOrCount = (cause: Cause.Cause<SqlError.SqlError>) => {
            const refusal = errorsOf(cause).find(isRefusal)
            if (refusal === undefined)
              return Effect.logDebug(`LISTEN failed on channel ${channel}, reconnecting`, cause)
            refusals++
            return refusals === 1
              ? Effect.logWarning(
                  `The database refuses LISTEN on channel ${channel}, so replicas learn of each other's changes only by polling: ${describeDatabaseError(refusal)}`
                )
              : Effect.void
          }
          return listenOnce.pipe(
            Effect.catchCause(logOrCount),
            Effect.andThen(
              Effect.suspend(() =>
                Effect.sleep(Math.min(MAX_REFUSED_MILLIS, RECONNECT_MILLIS * 2 ** refusals))
              )
            ),
            Effect.forever
          )
        })
    }
  })

/** Whether the server rejects the statement itself. It would also reject the next one, unlike a server that is unavailable. */
const isRefusal = (error: unknown): error is SqlError.SqlError =>
  SqlError.isSqlError(error) && !isDatabaseUnavailable(error)
