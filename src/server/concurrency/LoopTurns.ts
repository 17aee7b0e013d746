import { Context, Effect, Stream } from "effect"
import { type LoopTime, makeCompany, processTime, REST_FACTOR, restAfter } from "./Company.ts"

/**
 * Rest that a key may owe and still get a turn. A timer waits a millisecond at the least, several times as long as a
 * small request takes, so a rest after each would leave the event loop idle.
 */
const OWED_MILLIS = 2

/**
 * Turns at the event loop, by key. All requests of a process share one thread: whatever runs for 20 ms delays every other request by 20 ms.
 * Work on a large request is therefore done in slices, and before each slice it takes a turn:
 *
 * - between two slices, the event loop serves everything else that is ready;
 * - a key gets one turn per pass of the event loop, in the order of its requests, however many large requests it sends;
 * - while other keys have requests too, a key rests after each slice for three times as long as the slice took.
 */
export interface LoopTurns {
  /** Waits for the next turn of a key. */
  readonly take: (key: string) => Effect.Effect<void>
  /** Waits for the next turn of a key; false if it did not come within so many milliseconds. */
  readonly takeWithin: (key: string, millis: number) => Effect.Effect<boolean>
  /** Notes a request of a key, whatever its size. */
  readonly arrive: (key: string) => void
  /** Whether other keys have requests too. */
  readonly hasCompany: (key: string) => boolean
  /** Makes a key rest for so many milliseconds of work that was done for it outside of its turns, if it has company. */
  readonly charge: (key: string, millis: number) => void
}

/** A slice that waits for its turn. */
interface WaitingSlice {
  /** Resumes a fiber, which runs its slice at once, or refuses it if it waited too long. */
  readonly resume: (hasTurn: boolean) => void
  /** The end of its longest wait. */
  readonly until: number
}

/** The waiting slices of one key. */
interface KeyTurns {
  /** In the order of arrival. */
  readonly waiting: Set<WaitingSlice>
  restsUntil: number
}

/** Makes turns of their own, for tests. A process has one event loop, so it shares one {@link LoopTurns}. */
export const makeLoopTurns = (time: LoopTime = processTime): LoopTurns => {
  const keys = new Map<string, KeyTurns>()
  /** The next pass: immediately, or when the first rest ends. */
  let isDue = false
  let cancelRest = (): void => undefined

  const { arrive, has: hasCompany } = makeCompany(time)

  const turnsOf = (key: string): KeyTurns => {
    const turns = keys.get(key) ?? { waiting: new Set(), restsUntil: 0 }
    keys.set(key, turns)
    return turns
  }

  const passSoon = (): void => {
    if (isDue) return
    isDue = true
    cancelRest()
    setImmediate(pass)
  }

  /** The next slice of a key, after those that waited too long were refused. */
  const nextOf = ({ waiting }: KeyTurns, now: number): WaitingSlice | undefined => {
    for (const slice of waiting) {
      if (now <= slice.until) return slice
      waiting.delete(slice)
      slice.resume(false)
    }
    return undefined
  }

  const wait = (key: string, millis: number): Effect.Effect<boolean> =>
    Effect.callback((resume) => {
      const turns = turnsOf(key)
      const slice: WaitingSlice = {
        resume: (hasTurn) => resume(Effect.succeed(hasTurn)),
        until: time.now() + millis
      }
      turns.waiting.add(slice)
      passSoon()
      return Effect.sync(() => turns.waiting.delete(slice))
    })

  /** Gives each key that does not rest one turn. */
  const pass = (): void => {
    isDue = false
    let nextAt = Number.POSITIVE_INFINITY
    for (const [key, turns] of keys) {
      const start = time.now()
      const first = nextOf(turns, start)
      if (first === undefined) {
        if (turns.restsUntil <= start) keys.delete(key)
        else nextAt = Math.min(nextAt, turns.restsUntil)
        continue
      }
      if (turns.restsUntil <= start + OWED_MILLIS) {
        turns.waiting.delete(first)
        first.resume(true)
        const end = time.now()
        if (hasCompany(key)) turns.restsUntil = restAfter(turns.restsUntil, end - start, end)
      }
      nextAt = Math.min(nextAt, turns.restsUntil - OWED_MILLIS)
    }
    if (keys.size === 0 || isDue) return
    const rest = nextAt - time.now()
    // Not a fiber's sleep: turns share out the process's event loop, so they follow its timers, also when a test moves Effect's clock.
    if (rest > 0) cancelRest = time.after(rest, passSoon)
    else passSoon()
  }

  return {
    arrive,
    hasCompany,
    charge: (key, millis) => {
      if (!hasCompany(key)) return
      const turns = turnsOf(key)
      turns.restsUntil = Math.max(turns.restsUntil, time.now()) + millis * REST_FACTOR
      passSoon()
    },
    take: (key) => Effect.asVoid(wait(key, Number.POSITIVE_INFINITY)),
    takeWithin: wait
  }
}

/** The turns of this process. */
export const LoopTurns = Context.Reference<LoopTurns>("countersign/server/concurrency/LoopTurns", {
  defaultValue: () => makeLoopTurns()
})

/** The wait of the current request between two slices of its work. Small requests do not wait. */
const NextTurn = Context.Reference<Effect.Effect<void>>("countersign/server/concurrency/NextTurn", {
  defaultValue: () => Effect.void
})

/** A place between two slices of work: waits for the next turn if the current request is a large one. */
export const nextTurn: Effect.Effect<void> = Effect.withFiber((fiber) => fiber.getRef(NextTurn))

/** Whether the current request is a large one: a read, or one with a large body. */
export const isLargeRequest: Effect.Effect<boolean> = Effect.withFiber((fiber) =>
  Effect.succeed(fiber.getRef(NextTurn) !== Effect.void)
)

/** Runs a request with much work: `nextTurn` waits for `turn` in it. */
export const inTurns =
  (turn: Effect.Effect<void>) =>
  <A, E, R>(request: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.provideService(request, NextTurn, turn)

/** Makes a streamed response take turns: each of its parts takes `turn`, and `nextTurn` within a part waits for it too. */
export const streamInTurns =
  (turn: Effect.Effect<void>) =>
  <A, E, R>(stream: Stream.Stream<A, E, R>): Stream.Stream<A, E, R> =>
    Stream.provideService(
      Stream.mapArrayEffect(stream, (parts) => Effect.as(turn, parts)),
      NextTurn,
      turn
    )

/** `nextTurn`; if the current request is not a large one, it only yields to ready work. */
export const nextTurnOrYield: Effect.Effect<void> = Effect.withFiber((fiber) => {
  const turn = fiber.getRef(NextTurn)
  return turn === Effect.void ? Effect.yieldNow : turn
})

/**
 * Makes `nextTurn` only yield to ready work, while the request holds something that other requests wait for, such as a
 * transaction. Nothing changes for a small request.
 */
export const yieldingOnly = <A, E, R>(request: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) =>
    fiber.getRef(NextTurn) === Effect.void
      ? request
      : Effect.provideService(request, NextTurn, Effect.yieldNow)
  )
