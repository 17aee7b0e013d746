import { Cause, type Clock, Effect } from "effect"
import type { Outcome } from "../../domain/DeliveryState.ts"
import type { Item } from "./Item.ts"
import type { Lane } from "./Lane.ts"
import { monotonicMillis, type OwnedShard, type Shards } from "./Shards.ts"

/** An attempt that has ended and is to be written down. */
export interface Ended {
  readonly lane: Lane
  readonly item: Item
  readonly owned: OwnedShard
  readonly outcome: Outcome
  /** When the sending began, in milliseconds since the epoch. */
  readonly startedAt: number
  readonly durationMillis: number
}

/** What becomes of an attempt. */
export interface AttemptEnds {
  readonly ended: (ended: Ended) => Effect.Effect<void>
  /** Nothing was sent: the item goes back as it was. */
  readonly putBack: (lane: Lane, item: Item, owned: OwnedShard) => Effect.Effect<void>
}

/**
 * One attempt: reads what is to be sent, looks once more whether it may be, and sends it under its channel's deadline. Whatever the
 * channel does, it ends in one of two ways. Untraced: it runs for every delivery.
 */
export const makeAttempt = (
  clock: Clock.Clock,
  shards: Shards,
  { ended, putBack }: AttemptEnds
): ((lane: Lane, item: Item, owned: OwnedShard) => Effect.Effect<void>) => {
  const send = Effect.fnUntraced(function* (
    lane: Lane,
    item: Item,
    owned: OwnedShard,
    sending: Effect.Effect<Outcome>
  ) {
    // Reading may have taken long: what the lease allowed before it need not be allowed now.
    if (!shards.mayStart(lane.shard, monotonicMillis(clock))) return yield* putBack(lane, item, owned)
    const startedAt = clock.currentTimeMillisUnsafe()
    const before = monotonicMillis(clock)
    const outcome = yield* sending.pipe(
      Effect.timeoutOrElse({
        duration: lane.channel.policy.deadlineMillis,
        orElse: () => Effect.succeed(timedOut)
      }),
      Effect.catchCauseIf(
        (cause) => !Cause.hasInterruptsOnly(cause),
        (cause) => Effect.as(Effect.logError("A delivery could not be sent", cause), broken)
      )
    )
    const durationMillis = Math.round(monotonicMillis(clock) - before)
    yield* ended({ lane, item, owned, outcome, startedAt, durationMillis })
  })

  return (lane, item, owned) =>
    lane.channel.load(item).pipe(
      Effect.matchCauseEffect({
        onSuccess: (sending) => send(lane, item, owned, sending),
        onFailure: (cause) =>
          Cause.hasInterruptsOnly(cause)
            ? Effect.interrupt
            : Effect.andThen(
                Effect.logWarning("A delivery could not be read", cause),
                putBack(lane, item, owned)
              )
      })
    )
}

const timedOut: Outcome = { _tag: "Retry", error: "timed out", status: null, retryAfter: null }
const broken: Outcome = { _tag: "Retry", error: "internal error", status: null, retryAfter: null }
