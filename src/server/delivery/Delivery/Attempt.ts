import { type Clock, Effect, Exit, type Fiber } from "effect"
import type { SqlError } from "effect/sql"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"
import type { TimerWheel } from "../../concurrency/TimerWheel.ts"
import type { Item } from "./QueuedDelivery.ts"
import type { Lane } from "./Lane.ts"
import { type Shards } from "./Shards.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"

/**
 * How much later than its channel's deadline an attempt is cut off. A channel ends by itself at the deadline, and knows what the peer has
 * said by then: it must not lose that to a cut in the same moment.
 */
const GRACE_MILLIS = 100

/** The longest reading: a store that hangs must not keep a slot, a delivery and its shard for ever. */
const LOAD_MILLIS = 5_000

/** An attempt that has ended and is to be written down. */
export interface Ended {
  readonly lane: Lane
  readonly item: Item
  readonly outcome: AttemptOutcome
  /** When the sending began, in milliseconds since the epoch. */
  readonly startedAt: number
  readonly durationMillis: number
}

/** What becomes of an attempt. */
export interface AttemptEnds {
  readonly ended: (ended: Ended) => void
  /** Nothing was sent: the item goes back as it was. */
  readonly putBack: (lane: Lane, item: Item) => void
}

/** Runs an effect as long as the engine runs. */
export type Fork = <A>(effect: Effect.Effect<A, SqlError.SqlError>) => Fiber.Fiber<A, SqlError.SqlError>

/**
 * One attempt: reads what is to be sent, looks once more whether it may be, and sends it under its channel's deadline. Whatever the
 * store and the channel do, also where they end by an interruption, it ends in one of two ways. It runs for every delivery, so its two
 * steps are a fiber each and what comes after them is plain: neither a fiber over both nor a race with a timer.
 */
export const makeAttempt = (
  clock: Clock.Clock,
  shards: Pick<Shards, "mayStart">,
  alarms: TimerWheel,
  fork: Fork,
  { ended, putBack }: AttemptEnds
): ((lane: Lane, item: Item) => void) => {
  const send = (lane: Lane, item: Item, sending: Effect.Effect<AttemptOutcome>): void => {
    const before = monotonicMillis(clock)
    // Reading may have taken long: what the lease allowed before it need not be allowed now, nor what the shard's last ownership did.
    if (!shards.mayStart(lane.owned, before)) return putBack(lane, item)
    const startedAt = clock.currentTimeMillisUnsafe()
    let overdue = false
    const fiber = fork(sending)
    const callOff = alarms.schedule(lane.channel.policy.deadlineMillis + GRACE_MILLIS, () => {
      overdue = true
      fiber.interruptUnsafe()
    })
    fiber.addObserver((exit) => {
      callOff()
      const outcome = Exit.isSuccess(exit) ? exit.value : overdue ? timedOut : broken
      if (outcome === broken && Exit.isFailure(exit)) {
        fork(Effect.logError("A delivery could not be sent", exit.cause))
      }
      ended({
        lane,
        item,
        outcome,
        startedAt,
        durationMillis: Math.round(monotonicMillis(clock) - before)
      })
    })
  }

  return (lane, item) => {
    // What a channel throws is its own fault, and no end to the turn that the attempt began in.
    const loading = fork(Effect.suspend(() => lane.channel.load(item)))
    const callOff = alarms.schedule(LOAD_MILLIS, () => loading.interruptUnsafe())
    loading.addObserver((exit) => {
      callOff()
      if (Exit.isSuccess(exit)) return send(lane, item, exit.value)
      fork(Effect.logWarning("A delivery could not be read", exit.cause))
      putBack(lane, item)
    })
  }
}

const timedOut: AttemptOutcome = { _tag: "Retry", error: "timed out", status: null, retryAfter: null }
const broken: AttemptOutcome = { _tag: "Retry", error: "internal error", status: null, retryAfter: null }
