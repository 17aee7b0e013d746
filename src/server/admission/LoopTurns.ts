import { Context, Effect, Stream } from "effect"
import { LoopShares, type LoopTime, processTime } from "./LoopShares.ts"

/**
 * Debt that a key may have and still get a turn. A timer waits a millisecond at the least, several times as long as a
 * small request takes, so a wait after each would leave the event loop idle.
 */
const ALLOWED_DEBT_MILLIS = 2

/** The longest time that a slice is charged for. A longer one was interrupted, such as by garbage collection. */
const MAX_SLICE_MILLIS = 50

/** How long a throttled key waits at most until the contention is checked again. */
const CHECK_MILLIS = 100

/**
 * Turns at the event loop, by key. All requests of a process share one thread: whatever runs for 20 ms delays every other request by 20 ms.
 * Work on a large request is therefore done in slices, and before each slice it takes a turn:
 *
 * - between two slices, the event loop serves everything else that is ready;
 * - a key gets one turn per pass of the event loop, however many large requests it sends: the request that waited first
 *   for a turn finishes first;
 * - while the loop is contended, a key is throttled: see {@link LoopShares}.
 */
export interface LoopTurns {
  /** Waits for the next turn of a key. */
  readonly take: (key: string) => Effect.Effect<void>
  /** Waits for the next turn of a key; false if it did not come within this time in milliseconds. */
  readonly takeWithin: (key: string, millis: number) => Effect.Effect<boolean>
  /** Charges a key for work that was done for it outside of its turns. */
  readonly charge: (key: string, millis: number) => void
  /** Whether other keys use the event loop too. */
  readonly hasCompany: (key: string) => boolean
  /** Whether other keys use the event loop too, and it is busy. */
  readonly isContended: (key: string) => boolean
}

/** A slice that waits for its turn. */
interface WaitingSlice {
  readonly order: number
  /** Resumes a fiber, which runs its slice at once, or refuses it if it waited too long. */
  readonly resume: (hasTurn: boolean) => void
}

let lastOrder = 0

/** The position of the current request among all requests of the process. Requests without one are in the order of their slices. */
const RequestOrder = Context.Reference<number>("countersign/server/admission/RequestOrder", {
  defaultValue: () => 0
})

/** Gives all slices of a request the place of its first one: they come before the slices of later requests. */
export const inOrder = <A, E, R>(request: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) =>
    fiber.getRef(RequestOrder) === 0 ? Effect.provideService(request, RequestOrder, ++lastOrder) : request
  )

/** Inserts a slice behind those with the same or a lower order. */
const insert = (slices: Array<WaitingSlice>, slice: WaitingSlice): void => {
  let [low, high] = [0, slices.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((slices[middle]?.order ?? 0) <= slice.order) low = middle + 1
    else high = middle
  }
  slices.splice(low, 0, slice)
}

/** Makes turns of their own, for tests. A process has one event loop, so it shares one {@link LoopTurns}. */
export const makeLoopTurns = (time: LoopTime = processTime): LoopTurns => {
  const shares = new LoopShares(time)
  /** The keys with waiting slices, which are sorted by their order. */
  const keys = new Map<string, Array<WaitingSlice>>()
  /** The next pass: immediately, or when the first debt is paid off. */
  let isDue = false
  let cancelTimer = (): void => undefined

  const passSoon = (): void => {
    if (isDue) return
    isDue = true
    cancelTimer()
    setImmediate(pass)
  }

  const remove = (key: string, slice: WaitingSlice): boolean => {
    const slices = keys.get(key)
    const index = slices?.indexOf(slice) ?? -1
    if (slices === undefined || index < 0) return false
    slices.splice(index, 1)
    return true
  }

  const wait = (key: string, millis?: number): Effect.Effect<boolean> =>
    Effect.withFiber((fiber) => {
      const given = fiber.getRef(RequestOrder)
      const order = given === 0 ? ++lastOrder : given
      return Effect.callback((resume) => {
        const slice: WaitingSlice = {
          order,
          resume: (hasTurn) => {
            cancelExpiry?.()
            resume(Effect.succeed(hasTurn))
          }
        }
        const cancelExpiry =
          millis === undefined
            ? undefined
            : time.after(millis, () => {
                if (remove(key, slice)) slice.resume(false)
              })
        const slices = keys.get(key) ?? []
        keys.set(key, slices)
        insert(slices, slice)
        passSoon()
        return Effect.sync(() => {
          cancelExpiry?.()
          remove(key, slice)
        })
      })
    })

  /** Gives each key without too much debt one turn. */
  const pass = (): void => {
    isDue = false
    for (const [key, slices] of Array.from(keys)) {
      if (shares.debt(key) <= ALLOWED_DEBT_MILLIS) {
        const start = time.now()
        const first = slices.shift()
        if (first !== undefined) {
          first.resume(true)
          shares.charge(key, Math.min(time.now() - start, MAX_SLICE_MILLIS))
        }
      }
      if (slices.length === 0) keys.delete(key)
    }
    if (keys.size === 0 || isDue) return
    let millis = CHECK_MILLIS
    for (const key of keys.keys()) millis = Math.min(millis, shares.debt(key) - ALLOWED_DEBT_MILLIS)
    // Not a fiber's sleep: turns share out the process's event loop, so they follow its timers, also when a test moves Effect's clock.
    if (millis > 0) cancelTimer = time.after(millis, passSoon)
    else passSoon()
  }

  return {
    take: (key) => Effect.asVoid(wait(key)),
    takeWithin: wait,
    charge: (key, millis) => shares.charge(key, millis),
    hasCompany: (key) => shares.hasOthers(key),
    isContended: (key) => shares.isContended(key)
  }
}

/** The turns of this process. */
export const LoopTurns = Context.Reference<LoopTurns>("countersign/server/admission/LoopTurns", {
  defaultValue: () => makeLoopTurns()
})

/** The wait of the current request between two slices of its work. Small requests do not wait. */
const NextTurn = Context.Reference<Effect.Effect<void>>("countersign/server/admission/NextTurn", {
  defaultValue: () => Effect.void
})

/** A place between two slices of work: waits for the next turn if the current request is a large one. */
export const nextTurn: Effect.Effect<void> = Effect.withFiber((fiber) => fiber.getRef(NextTurn))

/** Whether the current request is a large one: a read, or one with a large body. */
export const isLargeRequest: Effect.Effect<boolean> = Effect.withFiber((fiber) =>
  Effect.succeed(fiber.getRef(NextTurn) !== Effect.void)
)

/** Runs a request with much work: `nextTurn` waits for `turn` in it, in the order of requests. */
export const inTurns =
  (turn: Effect.Effect<void>) =>
  <A, E, R>(request: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    inOrder(Effect.provideService(request, NextTurn, turn))

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
