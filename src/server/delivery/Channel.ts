import { Data, type DateTime, Effect } from "effect"
import type { SqlError } from "effect/sql"
import { type CooldownPolicy, defaultCooldownPolicy } from "../../domain/delivery/Cooldown.ts"
import type { AttemptOutcome } from "../../domain/delivery/DeliveryState.ts"
import type { EventId, OrgId } from "../../domain/Ids.ts"
import { defaultRetryPolicy, type RetryPolicy } from "../../domain/delivery/RetryPolicy.ts"
import type { ReceiverRateOptions } from "./Delivery/ReceiverRates.ts"

/** Identifies a delivery to its channel. */
export interface DeliveryRef {
  readonly org_id: OrgId
  readonly destination_id: string
  readonly delivery_id: string
  /** The key of the payload in the channel's own tables. */
  readonly event_id: EventId
}

/** How a channel treats its destinations. */
export interface ChannelPolicy {
  readonly retry: RetryPolicy
  /** With `first: 0` there are no cooldowns: a failing destination is probed one attempt at a time without a pause. */
  readonly cooldown: CooldownPolicy
  /** Deliveries of one destination that may be queued; a delivery beyond it fails with "queue full". */
  readonly queueLimit: number
  /** Concurrent attempts to one destination. */
  readonly concurrency: number
  /** Concurrent attempts of the whole channel in one replica. */
  readonly slots: number
  /**
   * The longest attempt, in milliseconds. The channel ends it by then; the engine interrupts one that still runs shortly
   * after. Up to 5,000 an attempt ends within the lease it began under and within the drain at shutdown. A longer
   * attempt may be interrupted by either, or run concurrently with the next owner's attempt, so that the peer receives
   * it twice.
   */
  readonly deadlineMillis: number
  /** Attempts per second to one receiver, as `Channel.receiverOf` names it. Default: not limited. */
  readonly receiverRates?: ReceiverRateOptions
  /** Attempts per second to one network, as the channel names it to `AdmitNetwork`. Default: not limited. */
  readonly networkRates?: ReceiverRateOptions
}

/**
 * Whether the rate limit of a network allows this attempt now. Host names do not suffice for a limit, because any
 * number of names can resolve to one address. If it returns false, the channel sends nothing and fails with
 * {@link AttemptHeld}.
 */
export type AdmitNetwork = (network: string) => boolean

/** Nothing was sent, because the rate limit of the network was reached. The delivery returns to its queue unchanged. */
export class AttemptHeld extends Data.TaggedError("AttemptHeld") {}

/**
 * Sends a loaded delivery. `began` is the monotonic time in milliseconds at which the engine checked its lease; the
 * deadline counts from then. A process that is suspended between this check and the first byte then sends nothing when it
 * resumes, because by then another replica may have sent the same delivery.
 */
export type SendAttempt = (began: number) => Effect.Effect<AttemptOutcome, AttemptHeld>

/**
 * The defaults of the contract for webhooks: ten attempts, 10,000 queued deliveries, 8 concurrent attempts, 5 s. The
 * channel may use three quarters of the engine's slots; the last quarter is enough for all slots of the other channels.
 */
export const defaultChannelPolicy: ChannelPolicy = {
  retry: defaultRetryPolicy,
  cooldown: defaultCooldownPolicy,
  queueLimit: 10_000,
  concurrency: 8,
  slots: 768,
  deadlineMillis: 5_000
}

/** A delivery that reached its final status. */
export interface CompletedDelivery {
  readonly delivery: DeliveryRef
  readonly status: "delivered" | "partial" | "failed"
  readonly outcome: AttemptOutcome
}

/**
 * A transport and its policy: all that the engine needs from webhooks, span batches and email. The engine owns the
 * queue, the log and the attempts. The channel owns the payloads, in tables of its own, keyed by `event_id` and sealed
 * where needed.
 */
export interface Channel {
  /** Stored with each delivery, so it never changes once it is in use. A destination belongs to one channel. */
  readonly name: string
  /** Generates delivery ids: a prefix of three characters, `_`, and a UUIDv7. */
  readonly ids: { readonly generate: Effect.Effect<string> }
  readonly policy: ChannelPolicy
  /** Set if the channel itself logs when its destination begins to fail, because many organizations share it. Otherwise the engine does. */
  readonly logsOutages?: true
  /**
   * Loads the current payload and destination, and returns the effect that sends them. The engine runs that effect
   * immediately, outside any transaction, and interrupts it at the deadline. A failed load is not a failed attempt: the
   * delivery is loaded again after a short wait.
   */
  readonly load: (ref: DeliveryRef, admit: AdmitNetwork) => Effect.Effect<SendAttempt, SqlError.SqlError>
  /**
   * Names the receiver that a delivery goes to, if several destinations can share one, such as the host of a URL.
   * Called right after `load`.
   */
  readonly receiverOf?: (ref: DeliveryRef) => string | undefined
  /**
   * Runs last within the transaction that records the final status of these deliveries, to update counters that must
   * agree with the log and to delete payloads that are no longer needed. Called exactly once for each delivery, also
   * with `failed` for a delivery that retention removes while it is queued, but not for deliveries cancelled because their
   * destination was removed. Without this hook, results need no explicit transaction.
   */
  readonly onCompleted?: (list: ReadonlyArray<CompletedDelivery>) => Effect.Effect<void, SqlError.SqlError>
  /** Disables the destination after a `Gone` outcome of this delivery. */
  readonly disable?: (
    org_id: OrgId,
    destination_id: string,
    delivery_id: string
  ) => Effect.Effect<void, SqlError.SqlError>
  /**
   * Deletes payloads older than `cutoff`, whose log rows expire with them, and any other expired data of the channel;
   * at most `limit` rows. Returns the number of payloads deleted.
   */
  readonly expire: (
    cutoff: DateTime.Utc,
    limit: number,
    org_id: OrgId | undefined
  ) => Effect.Effect<number, SqlError.SqlError>
}

/** The `load` result for a delivery that must not be sent; `error` becomes its `last_error`. */
export const refuse = (error: string): SendAttempt => {
  const refused = Effect.succeed<AttemptOutcome>({ _tag: "Refused", error })
  return () => refused
}
