import type { DateTime, Effect } from "effect"
import type { SqlError } from "effect/sql"
import { type CooldownPolicy, defaultCooldownPolicy } from "../../domain/Cooldown.ts"
import type { Outcome } from "../../domain/DeliveryState.ts"
import type { DeliveryId, EventId, OrgId } from "../../domain/Ids.ts"
import { defaultRetryPolicy, type RetryPolicy } from "../../domain/RetryPolicy.ts"

/** One attempt at one delivery, as a channel is given it. */
export interface Parcel {
  readonly org_id: OrgId
  readonly destination_id: string
  readonly delivery_id: DeliveryId
  readonly event_id: EventId
}

/** How a channel treats its destinations. */
export interface ChannelPolicy {
  readonly retry: RetryPolicy
  readonly cooldown: CooldownPolicy
  /** Deliveries of one destination that may wait at once. */
  readonly capacity: number
  /** Attempts at one destination that may be under way at once. */
  readonly concurrency: number
  /** The longest sending, in milliseconds. At most 5,000: a lease is handed over only when every sending has ended. */
  readonly deadlineMillis: number
}

/** The contract's defaults: ten attempts, 10,000 waiting, 8 at once, 5 s. */
export const defaultChannelPolicy: ChannelPolicy = {
  retry: defaultRetryPolicy,
  cooldown: defaultCooldownPolicy,
  capacity: 10_000,
  concurrency: 8,
  deadlineMillis: 5_000
}

/** A transport and its policy: what the engine needs to know of webhooks, span batches and mail. */
export interface Channel {
  /** Stored with each delivery; never changed once it is in use. */
  readonly name: string
  readonly policy: ChannelPolicy
  /**
   * Reads what is to be sent, and to where, as they stand now; answers with the sending. The engine runs that at once,
   * outside any transaction, and interrupts it at the deadline. A failure to read counts against nobody: the delivery
   * waits a moment and is read again.
   */
  readonly load: (parcel: Parcel) => Effect.Effect<Effect.Effect<Outcome>, SqlError.SqlError>
  /** After `Gone`: switches the destination off. */
  readonly switchOff: (org_id: OrgId, destination_id: string) => Effect.Effect<void, SqlError.SqlError>
  /** Removes payloads from before `cutoff`, `limit` of them at most, and answers with how many. */
  readonly expire: (cutoff: DateTime.Utc, limit: number) => Effect.Effect<number, SqlError.SqlError>
}

/** The first twelve digits of ids that are made at a time (UUIDv7, RFC 9562): those made before it sort before them. */
export const uuidTime = (at: DateTime.Utc): string =>
  Math.max(0, Math.floor(at.epochMilliseconds)).toString(16).padStart(12, "0")
