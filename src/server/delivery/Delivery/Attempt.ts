import { type Clock, Effect, Exit, type Fiber, Option } from "effect"
import type { SqlError } from "effect/sql"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"
import type { AttemptHeld, SendAttempt } from "../Channel.ts"
import type { TimerWheel } from "../../concurrency/TimerWheel.ts"
import type { QueuedDelivery } from "./QueuedDelivery.ts"
import type { Lane } from "./Lane.ts"
import { type Shards } from "./Shards.ts"
import { logFailure } from "../../observability/DatabaseOutage.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"

/**
 * How long after its channel's deadline an attempt is interrupted, in milliseconds. A channel ends by itself at the
 * deadline, with any status the peer has sent by then; an interruption at the same moment would lose that status.
 */
const GRACE_MILLIS = 50

/**
 * Turns of the timers that the grace lasts besides. After a stall of the process, all timers that were due meanwhile fire together, and
 * this one may fire before the channel's. The channel then needs some turns of the event loop for its end. Each of them may stall again, so
 * that only turns measure them, not time.
 */
const GRACE_TURNS = 10

/**
 * The longest load of payload and destination, in milliseconds: a hanging database must not occupy a slot, a delivery
 * and its shard indefinitely.
 */
const LOAD_TIMEOUT_MILLIS = 5_000

/** A finished attempt whose result has yet to be recorded. */
export interface AttemptResult {
  readonly lane: Lane
  readonly delivery: QueuedDelivery
  readonly outcome: AttemptOutcome
  /** When sending began, by the store's time, in milliseconds since the epoch. */
  readonly startedAt: number
  readonly durationMillis: number
}

/** The ways in which an attempt ends, and what decides whether a loaded one is sent. */
export interface AttemptCallbacks {
  /**
   * Called when the loading ended: whether the receiver's rate allows the attempt now. If not, it ends without any other callback.
   */
  readonly admit: (lane: Lane, delivery: QueuedDelivery) => boolean
  /** Whether the rate limit of the network that an attempt is about to connect to allows it. */
  readonly admitNetwork: (lane: Lane, network: string) => boolean
  /** Nothing was sent, because `admitNetwork` returned false: the delivery returns to its lane unchanged. */
  readonly held: (lane: Lane, delivery: QueuedDelivery) => void
  /** Called when the loading ended, before anything else. */
  readonly loaded: (lane: Lane) => void
  /** Called when a loaded attempt was started, requeued or refused by `admit`. */
  readonly started: (lane: Lane) => void
  readonly finished: (result: AttemptResult) => void
  /** Nothing was sent: the delivery returns to its lane unchanged. */
  readonly requeue: (lane: Lane, delivery: QueuedDelivery) => void
}

/** Runs an effect in a fiber that lives as long as the engine. */
export type Fork = <A, E extends SqlError.SqlError | AttemptHeld>(
  effect: Effect.Effect<A, E>
) => Fiber.Fiber<A, E>

/**
 * Makes one attempt: loads the payload and the destination, checks the lease again, and sends under the channel's
 * deadline. Every attempt calls exactly one of `finished`, `requeue` and `held`, also if the database or the channel fails, throws or
 * is interrupted; only one that `admit` refuses calls none.
 *
 * This runs for every delivery, so each of the two steps is a single fiber, and the code after them is a plain
 * observer: no fiber spans both, and no step races a timer.
 *
 * The lease and all time-outs are on the process's clock; the time in the log is the store's, `storeMillis`.
 */
export const makeAttempt = (
  clock: Clock.Clock,
  storeMillis: () => number,
  shards: Pick<Shards, "canStart">,
  timers: TimerWheel,
  fork: Fork,
  { admit, admitNetwork, finished, held, loaded, requeue, started }: AttemptCallbacks
): ((lane: Lane, delivery: QueuedDelivery) => void) => {
  const send = (lane: Lane, delivery: QueuedDelivery, sending: SendAttempt): void => {
    const before = monotonicMillis(clock)
    // Loading may have taken long: the lease may be too short by now, or the shard may have changed its owner and come
    // back.
    if (!shards.canStart(lane.owned, before)) return requeue(lane, delivery)
    if (!admit(lane, delivery)) return
    const startedAt = storeMillis()
    let overdue = false
    const fiber = fork(Effect.suspend(() => sending(before)))
    const endAfter = (turns: number) => {
      if (turns > 0) {
        cancelTimer = timers.schedule(0, () => endAfter(turns - 1))
        return
      }
      overdue = true
      fiber.interruptUnsafe()
    }
    let cancelTimer = timers.schedule(lane.channel.policy.deadlineMillis + GRACE_MILLIS, () =>
      endAfter(GRACE_TURNS)
    )
    fiber.addObserver((exit) => {
      cancelTimer()
      if (isHeld(exit)) return held(lane, delivery)
      const outcome = Exit.isSuccess(exit) ? exit.value : overdue ? timedOut : crashed
      if (outcome === crashed && Exit.isFailure(exit)) {
        fork(Effect.logError("Defect while sending a delivery; the attempt will be retried", exit.cause))
      }
      finished({
        lane,
        delivery,
        outcome,
        startedAt,
        durationMillis: Math.round(monotonicMillis(clock) - before)
      })
    })
  }

  return (lane, delivery) => {
    // `suspend` turns an exception in the channel's `load` into a failure of this fiber; thrown here it would end the
    // dispatcher's pass.
    const loading = fork(
      Effect.suspend(() => lane.channel.load(delivery, (network) => admitNetwork(lane, network)))
    )
    const cancelTimer = timers.schedule(LOAD_TIMEOUT_MILLIS, () => loading.interruptUnsafe())
    loading.addObserver((exit) => {
      cancelTimer()
      loaded(lane)
      if (Exit.isSuccess(exit)) {
        send(lane, delivery, exit.value)
        return started(lane)
      }
      fork(logFailure("Could not load a delivery; it will be loaded again", exit.cause))
      requeue(lane, delivery)
    })
  }
}

const isHeld = (exit: Exit.Exit<AttemptOutcome, AttemptHeld>): boolean =>
  Exit.isFailure(exit) && Option.isSome(Exit.findErrorOption(exit))

const timedOut: AttemptOutcome = { _tag: "Retry", error: "timed out", status: null, retryAfter: null }
const crashed: AttemptOutcome = { _tag: "Retry", error: "internal error", status: null, retryAfter: null }
