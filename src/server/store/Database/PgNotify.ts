/**
 * What processes tell each other by NOTIFY, on a channel of the store. Nothing depends on a notice that arrives: whoever listens looks
 * for himself each time that listening begins, and now and then besides.
 */
import { PgClient } from "@effect/sql-pg"
import { type Duration, Effect, type Latch, Queue } from "effect"
import { texts } from "../pgArrays.ts"

/** Between two tries to listen while the store is away. */
const LISTEN_AGAIN: Duration.Input = "200 millis"

/** One channel. */
export interface Notices {
  /** Tells every process, this one too. What cannot be told is left out. */
  readonly tell: (payloads: ReadonlyArray<string>) => Effect.Effect<void>
  /**
   * For ever: waits until something is due, lets more come for so long, and tells what `take` gives then. Outside of the transactions
   * that it is about, and a burst at once: a NOTIFY takes a lock of the whole server while its transaction commits.
   */
  readonly telling: (
    due: Latch.Latch,
    gather: Duration.Input,
    take: () => ReadonlyArray<string>
  ) => Effect.Effect<never>
  /** For ever, through losses of the connection: what is told; undefined each time listening begins, since some may have gone by unheard. */
  readonly hearing: (on: (payload: string | undefined) => Effect.Effect<void>) => Effect.Effect<never>
}

/** The notices of a channel, on the client at hand; listening holds a connection of it. */
export const makeNotices = (channel: string): Effect.Effect<Notices, never, PgClient.PgClient> =>
  Effect.map(PgClient.PgClient, (pg) => {
    const tell = (payloads: ReadonlyArray<string>) =>
      pg`
        SELECT pg_notify(${channel}, payload)
        FROM unnest(${texts(payloads)}) AS payload
      `.pipe(
        Effect.catchCause((cause) =>
          Effect.logDebug(`Other processes could not be told on ${channel}`, cause)
        ),
        Effect.asVoid
      )
    return {
      tell,
      telling: (due, gather, take) =>
        due.await.pipe(
          Effect.andThen(Effect.sleep(gather)),
          Effect.andThen(
            Effect.suspend(() => {
              due.closeUnsafe()
              return tell(take())
            })
          ),
          Effect.forever
        ),
      hearing: (on) =>
        Effect.scoped(
          Effect.gen(function* () {
            const heard = yield* pg.listen(channel)
            yield* on(undefined)
            return yield* Effect.forever(Effect.flatMap(Queue.take(heard), ({ payload }) => on(payload)))
          })
        ).pipe(
          Effect.catchCause((cause) => Effect.logDebug(`Nothing is heard on ${channel}`, cause)),
          Effect.andThen(Effect.sleep(LISTEN_AGAIN)),
          Effect.forever
        )
    }
  })
