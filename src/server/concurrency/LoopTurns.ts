import { Context, Effect, Stream } from "effect"

/**
 * The share of its own time that a key rests after a slice of work while other keys have requests: 1 leaves them half of the event loop.
 */
const REST = 1

/**
 * Rest that a key may owe and still get a turn. A timer waits a millisecond at the least, several times as long as a
 * small request takes, so a rest after each would leave the event loop idle.
 */
const OWED_MILLIS = 2

/** How long after its last request a key counts as having requests. */
const ACTIVE_MILLIS = 1_000

/**
 * Turns at the event loop, by key. All requests of a process share one thread: whatever runs for 20 ms delays every other request by 20 ms.
 * Work on a large request is therefore done in slices, and before each slice it takes a turn:
 *
 * - between two slices, the event loop serves everything else that is ready;
 * - a key gets one turn per pass of the event loop, in the order of its requests, however many large requests it sends;
 * - while other keys have requests too, a key rests after each slice for as long as the slice took.
 */
export interface LoopTurns {
  /** Waits for the next turn of a key. */
  readonly take: (key: string) => Effect.Effect<void>
  /** Notes a request of a key, whatever its size. */
  readonly arrive: (key: string) => void
  /** Whether other keys have requests too. */
  readonly hasCompany: (key: string) => boolean
  /** Makes a key rest for work that it had done outside of its turns, if it has company. */
  readonly charge: (key: string, millis: number) => void
}

/** The waiting slices of one key. */
interface KeyTurns {
  /** In the order of arrival. Each resumes a fiber, which runs its slice at once. */
  readonly waiting: Set<() => void>
  restsUntil: number
}

/** The time of an event loop. */
export interface LoopTime {
  /** Milliseconds. */
  readonly now: () => number
  /** Runs a function once, after so many milliseconds. Returns a function that cancels it. */
  readonly after: (millis: number, run: () => void) => () => void
}

const processTime: LoopTime = {
  now: () => performance.now(),
  after: (millis, run) => {
    const timer = setTimeout(run, millis)
    return () => clearTimeout(timer)
  }
}

/** Makes turns of their own, for tests. A process has one event loop, so it shares one {@link LoopTurns}. */
export const makeLoopTurns = (time: LoopTime = processTime): LoopTurns => {
  const keys = new Map<string, KeyTurns>()
  /** The next pass: immediately, or when the first rest ends. */
  let isDue = false
  let cancelRest = (): void => undefined

  /** The two keys with the latest requests, the later first. */
  let latest = { key: "", at: Number.NEGATIVE_INFINITY }
  let other = latest

  const arrive = (key: string): void => {
    const at = time.now()
    if (latest.key !== key) other = latest
    latest = { key, at }
  }

  const hasCompany = (key: string): boolean =>
    time.now() - (latest.key === key ? other : latest).at < ACTIVE_MILLIS

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

  /** Gives each key that does not rest one turn. */
  const pass = (): void => {
    isDue = false
    let nextAt = Number.POSITIVE_INFINITY
    for (const [key, turns] of keys) {
      const start = time.now()
      const [resume] = turns.waiting
      if (resume === undefined) {
        if (turns.restsUntil <= start) keys.delete(key)
        else nextAt = Math.min(nextAt, turns.restsUntil)
        continue
      }
      if (turns.restsUntil <= start + OWED_MILLIS) {
        turns.waiting.delete(resume)
        resume()
        const end = time.now()
        const spent = end - start
        // The slice itself is no rest.
        if (hasCompany(key)) turns.restsUntil = Math.max(turns.restsUntil + spent, end) + spent * REST
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
      turns.restsUntil = Math.max(turns.restsUntil, time.now()) + millis
      passSoon()
    },
    take: (key) =>
      Effect.callback((resume) => {
        const turns = turnsOf(key)
        const go = () => resume(Effect.void)
        turns.waiting.add(go)
        passSoon()
        return Effect.sync(() => turns.waiting.delete(go))
      })
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
