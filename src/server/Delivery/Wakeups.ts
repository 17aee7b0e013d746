import { PgClient } from "@effect/sql-pg"
import { Effect, Latch, Queue } from "effect"

/** The channel of the store's notifications. */
const CHANNEL = "countersign_delivery"

/** A burst of writes makes one notification: each takes a lock of the whole store at its commit. */
const DEBOUNCE_MILLIS = 30

/** Between two tries to listen while the store is away. */
const RELISTEN_MILLIS = 500

/** What one process tells the others: there are new rows, or shards were set free. */
export type WakeUp = "rows" | "shards"

/** Wake-ups between processes. None is relied on: behind them the store is polled. */
export interface Wakeups {
  /** Tells the others, soon, that there are new rows. */
  readonly rows: () => void
  /** Tells the others at once that shards were set free. */
  readonly shards: Effect.Effect<void>
  /** Sends the notifications that `rows` called for, one after the other, for ever. */
  readonly notifying: Effect.Effect<never>
  /** Hears the others, for ever, through losses of the connection. Own notifications are heard too. */
  readonly listening: (on: (wakeUp: WakeUp) => void) => Effect.Effect<never>
}

export const makeWakeups: Effect.Effect<Wakeups, never, PgClient.PgClient> = Effect.gen(function* () {
  const pg = yield* PgClient.PgClient
  const due = Latch.makeUnsafe(false)
  const tell = (wakeUp: WakeUp) =>
    pg
      .notify(CHANNEL, wakeUp)
      .pipe(Effect.catchCause((cause) => Effect.logDebug("Others could not be notified", cause)))
  return {
    rows: () => void due.openUnsafe(),
    shards: tell("shards"),
    notifying: due.await.pipe(
      Effect.andThen(Effect.sleep(DEBOUNCE_MILLIS)),
      Effect.andThen(Effect.sync(() => due.closeUnsafe())),
      Effect.andThen(tell("rows")),
      Effect.forever
    ),
    listening: (on) =>
      Effect.scoped(
        Effect.gen(function* () {
          const heard = yield* pg.listen(CHANNEL)
          // What was said while nobody listened is made up for by looking.
          on("shards")
          on("rows")
          return yield* Effect.forever(
            Effect.map(Queue.take(heard), ({ payload }) => on(payload === "shards" ? "shards" : "rows"))
          )
        })
      ).pipe(
        Effect.catchCause((cause) => Effect.logDebug("Notifications are not heard", cause)),
        Effect.andThen(Effect.sleep(RELISTEN_MILLIS)),
        Effect.forever
      )
  }
})
