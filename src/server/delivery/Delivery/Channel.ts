import { type DateTime, Effect } from "effect"
import type { SqlError } from "effect/sql"
import { type CooldownPolicy, defaultCooldownPolicy } from "../../../domain/delivery/Cooldown.ts"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"
import type { EventId, OrgId } from "../../../domain/Ids.ts"
import { defaultRetryPolicy, type RetryPolicy } from "../../../domain/delivery/RetryPolicy.ts"

/** One attempt at one delivery, as a channel is given it. */
export interface Parcel {
  readonly org_id: OrgId
  readonly destination_id: string
  readonly delivery_id: string
  /** What the channel finds its payload by. */
  readonly event_id: EventId
}

/** How a channel treats its destinations. */
export interface ChannelPolicy {
  readonly retry: RetryPolicy
  /** Without a length for a channel that never leaves a destination alone: one that fails is sent to one by one all the same. */
  readonly cooldown: CooldownPolicy
  /** Deliveries of one destination that may wait at once. */
  readonly capacity: number
  /** Attempts at one destination that may be under way at once. */
  readonly concurrency: number
  /** Attempts of the whole channel that may be under way at once in one process. */
  readonly slots: number
  /**
   * The longest sending, in milliseconds: the channel ends it by then, and the engine cuts off what has not ended shortly after. Up to
   * 5,000 it ends within the lease that it began under and within the drain at a stop; a longer one may be cut off there, or overtaken
   * by another owner, and sent again.
   */
  readonly deadlineMillis: number
}

/**
 * The contract's defaults for notifications: ten attempts, 10,000 waiting, 8 at once, 5 s. Of the engine's slots they leave a quarter: that
 * is room for all the slots of the other channels.
 */
export const defaultChannelPolicy: ChannelPolicy = {
  retry: defaultRetryPolicy,
  cooldown: defaultCooldownPolicy,
  capacity: 10_000,
  concurrency: 8,
  slots: 768,
  deadlineMillis: 5_000
}

/** A delivery that has come to its end, as its channel is told of it. */
export interface Settled {
  readonly parcel: Parcel
  readonly status: "delivered" | "partial" | "failed"
  readonly outcome: AttemptOutcome
}

/**
 * A transport and its policy: what the engine needs to know of webhooks, span batches and mail. The queue, the log and the attempts are
 * the engine's; payloads are the channel's, in tables of its own, found by `event_id` and as sealed as it likes.
 */
export interface Channel {
  /** Stored with each delivery; never changed once it is in use. A destination has one channel. */
  readonly name: string
  /** Makes the ids of its deliveries: a prefix of three characters, `_`, and a UUIDv7. */
  readonly ids: { readonly generate: Effect.Effect<string> }
  readonly policy: ChannelPolicy
  /**
   * Reads what is to be sent, and to where, as they stand now; answers with the sending. The engine runs that at once,
   * outside any transaction, and interrupts it at the deadline. A failure to read counts against nobody: the delivery
   * waits a moment and is read again.
   */
  readonly load: (parcel: Parcel) => Effect.Effect<Effect.Effect<AttemptOutcome>, SqlError.SqlError>
  /**
   * Within the transaction that writes the ends of these deliveries down, last: for counters that must agree with the log, and payloads
   * that are needed no more. Each end is told exactly once: also that of a delivery which is removed while it waits, as `failed`; not of
   * those that are discarded with their destination. A channel without it costs its deliveries no transaction.
   */
  readonly settle?: (list: ReadonlyArray<Settled>) => Effect.Effect<void, SqlError.SqlError>
  /** After `Gone`: switches the destination off. */
  readonly switchOff?: (org_id: OrgId, destination_id: string) => Effect.Effect<void, SqlError.SqlError>
  /**
   * Removes payloads from before `cutoff`, with which their log rows go too, and what else the channel keeps no longer; `limit` rows at
   * most. Answers with how many payloads.
   */
  readonly expire: (cutoff: DateTime.Utc, limit: number) => Effect.Effect<number, SqlError.SqlError>
}

/** What a channel has for a delivery that must not be sent any more, in our words. */
export const refused = (error: string): Effect.Effect<AttemptOutcome> =>
  Effect.succeed({ _tag: "Refused", error })
