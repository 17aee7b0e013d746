import { Schema } from "effect"
import { DeliveryId, EventId } from "../Ids.ts"
import { nextDelay, type RetryPolicy } from "./RetryPolicy.ts"
import { Timestamp } from "../Time.ts"

/** The status of a delivery. Only the replica that is running an attempt reports `delivering`; other replicas report `pending`. */
export const DeliveryStatus = Schema.Literals(["pending", "delivering", "delivered", "failed"])
export type DeliveryStatus = typeof DeliveryStatus.Type

/** One event on its way to one destination. */
export const DeliveryRecord = Schema.Struct({
  id: DeliveryId,
  event_id: EventId,
  /** What the event is about: for an approval event its type and the approval's id. */
  label: Schema.String,
  status: DeliveryStatus,
  /** Attempts made, including attempts before a replay. */
  attempts: Schema.Int,
  replays: Schema.Int,
  /** Why the last attempt failed, in the service's own words, never the receiver's; null without a failure and after success. */
  last_error: Schema.NullOr(Schema.String),
  created_at: Timestamp,
  finished_at: Schema.NullOr(Timestamp)
}).annotate({ identifier: "DeliveryRecord" })
export type DeliveryRecord = typeof DeliveryRecord.Type

/** One attempt, as the attempt log has it. */
export const DeliveryAttempt = Schema.Struct({
  /** From 1. */
  attempt: Schema.Int,
  started_at: Timestamp,
  duration_ms: Schema.Int,
  /** The HTTP status; null if no response arrived. */
  status: Schema.NullOr(Schema.Int),
  error: Schema.NullOr(Schema.String)
}).annotate({ identifier: "DeliveryAttempt" })
export type DeliveryAttempt = typeof DeliveryAttempt.Type

/** A delivery with its attempts, oldest first. */
export const DeliveryDetail = Schema.Struct({
  ...DeliveryRecord.fields,
  attempt_log: Schema.Array(DeliveryAttempt)
}).annotate({ identifier: "DeliveryDetail" })
export type DeliveryDetail = typeof DeliveryDetail.Type

/** How an attempt ended, as the channel classifies it. `status` is the receiver's, in the channel's protocol. */
export type AttemptOutcome =
  | { readonly _tag: "Delivered"; readonly status: number | null }
  /** The receiver accepted the delivery except for `rejected` items. It does not say which, so nothing is resent. */
  | {
      readonly _tag: "Partial"
      readonly rejected: number
      readonly error: string
      readonly status: number | null
    }
  /** A retryable failure. `retryAfter`: the delay that the receiver asked for, in milliseconds. */
  | {
      readonly _tag: "Retry"
      readonly error: string
      readonly status: number | null
      readonly retryAfter: number | null
      readonly fault?: Fault
    }
  /** A permanent failure. */
  | {
      readonly _tag: "Failed"
      readonly error: string
      readonly status: number | null
      readonly fault?: Fault
    }
  /**
   * Nothing was sent and nothing will be: the destination or the payload is gone, the destination is disabled, or the delivery expired. Not
   * counted as an attempt.
   */
  | { readonly _tag: "Refused"; readonly error: string }
  /** The receiver asked for no more deliveries: this delivery fails and its destination is disabled. */
  | { readonly _tag: "Gone"; readonly error: string; readonly status: number | null }

/** `delivery`: only this delivery is at fault, so the failure does not count against its destination. */
export type Fault = "delivery"

/**
 * How an attempt counts in its destination's health; `ignored` leaves the health unchanged. The names are those of Effect's
 * `CircuitBreaker`.
 */
export type DestinationVerdict = "success" | "failure" | "ignored"

/** Returns how an attempt counts in its destination's health. */
export const destinationVerdict = (outcome: AttemptOutcome): DestinationVerdict => {
  switch (outcome._tag) {
    case "Delivered":
    case "Partial":
      return "success"
    case "Refused":
      return "ignored"
    case "Gone":
      return "failure"
    case "Retry":
    case "Failed":
      return outcome.fault === "delivery" ? "success" : "failure"
  }
}

/**
 * The state of a delivery after an attempt.
 *
 * ```
 *   enqueue ──> pending ──> delivering ──> delivered, partial
 *      │          ^ ^           │ │
 *      │          │ └── retry ──┘ └──────> failed
 *      │          │                          │ ^
 *      │          └───────── replay ─────────┘ │
 *      └───────── queue full ──────────────────┘
 * ```
 */
export type Conclusion =
  | { readonly _tag: "Delivered" }
  | { readonly _tag: "Partial"; readonly rejected: number; readonly error: string }
  /** `delay` in milliseconds. */
  | { readonly _tag: "RetryLater"; readonly delay: number; readonly error: string }
  | { readonly _tag: "Failed"; readonly error: string }

/**
 * Returns what follows from an attempt's outcome. `attemptsMade` counts the attempts since the delivery was enqueued or replayed, including
 * this one: a replay starts the schedule over. The next attempt must start within `remainingMillis`.
 */
export const conclude = (
  policy: RetryPolicy,
  outcome: AttemptOutcome,
  {
    attemptsMade,
    random,
    remainingMillis
  }: { readonly attemptsMade: number; readonly remainingMillis: number; readonly random: number }
): Conclusion => {
  switch (outcome._tag) {
    case "Delivered":
      return { _tag: "Delivered" }
    case "Partial":
      return { _tag: "Partial", rejected: outcome.rejected, error: outcome.error }
    case "Failed":
    case "Refused":
    case "Gone":
      return { _tag: "Failed", error: outcome.error }
    case "Retry": {
      const delay = nextDelay(policy, attemptsMade, random, outcome.retryAfter, remainingMillis)
      return delay === null
        ? { _tag: "Failed", error: outcome.error }
        : { _tag: "RetryLater", delay, error: outcome.error }
    }
  }
}
