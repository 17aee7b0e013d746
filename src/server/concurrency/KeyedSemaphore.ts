import { Effect, Option, Semaphore } from "effect"
import { SqlError } from "effect/sql"

/** How long one waits for a turn; then the request is answered 503. */
const WAIT_MILLIS = 5_000

/**
 * Gives each holder so many turns at once at what holds a connection of the pool, so that nobody has all of them. What comes beyond these
 * waits in its order, without a connection, and no longer than five seconds.
 */
export const makeKeyedSemaphore = (each: number) => {
  /** Of those who have a turn, or wait for one. */
  const holders = new Map<string, { readonly turns: Semaphore.Semaphore; users: number }>()

  return (holder: string) =>
    <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
      Effect.suspend(() => {
        const held = holders.get(holder) ?? { turns: Semaphore.makeUnsafe(each), users: 0 }
        holders.set(holder, held)
        held.users++
        return held.turns
          .withPermitsIfAvailable(1)(self)
          .pipe(
            Effect.flatMap(Option.match({ onNone: () => inLine(held.turns, self), onSome: Effect.succeed })),
            Effect.ensuring(
              Effect.sync(() => {
                if (--held.users === 0) holders.delete(holder)
              })
            )
          )
      })
}

/** Waits for a turn, for a time; what has begun takes as long as it takes. */
const inLine = <A, E, R>(turns: Semaphore.Semaphore, self: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    let begun = false
    const run = Effect.suspend(() => {
      begun = true
      return self
    })
    const tooLong = Effect.suspend(() => (begun ? Effect.never : noTurn))
    return Effect.raceFirst(turns.withPermit(run), Effect.andThen(Effect.sleep(WAIT_MILLIS), tooLong))
  })

const noTurn = Effect.fail(
  new SqlError.SqlError({
    reason: new SqlError.LockTimeoutError({
      cause: undefined,
      message: "The organization's other transactions did not end in time",
      operation: "transaction"
    })
  })
)
