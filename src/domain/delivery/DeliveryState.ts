import { Schema } from "effect"
import { DeliveryId, EventId } from "../Ids.ts"
import { nextDelay, type RetryPolicy } from "./RetryPolicy.ts"
import { Timestamp } from "../Time.ts"

/** Where a delivery stands. `delivering`: an attempt is under way at this moment, in the process that answers; others say `pending`. */
export const DeliveryStatus = Schema.Literals(["pending", "delivering", "delivered", "failed"])
export type DeliveryStatus = typeof DeliveryStatus.Type

/** One event on its way to one destination. */
export const DeliveryRecord = Schema.Struct({
  id: DeliveryId,
  event_id: EventId,
  /** What it is about: for an approval event its type and the approval's id. */
  label: Schema.String,
  status: DeliveryStatus,
  /** Attempts made, those before a replay included. */
  attempts: Schema.Int,
  replays: Schema.Int,
  /** A phrase of ours, never what the peer said; null while nothing went wrong, and after success. */
  last_error: Schema.NullOr(Schema.String),
  created_at: Timestamp,
  finished_at: Schema.NullOr(Timestamp)
}).annotate({ identifier: "DeliveryRecord" })
export type DeliveryRecord = typeof DeliveryRecord.Type

/** One attempt, as the log keeps it. */
export const DeliveryAttempt = Schema.Struct({
  /** From 1. */
  attempt: Schema.Int,
  started_at: Timestamp,
  duration_ms: Schema.Int,
  /** The HTTP status, where there was an answer. */
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

/** How an attempt ended, as the channel judges it. `status`: the peer's, in the channel's protocol. */
export type AttemptOutcome =
  | { readonly _tag: "Delivered"; readonly status: number | null }
  /** The receiver took it and refused `rejected` of what it carried. It does not say which, so nothing is sent again. */
  | {
      readonly _tag: "Partial"
      readonly rejected: number
      readonly error: string
      readonly status: number | null
    }
  /** Worth another attempt. `retryAfter`: what the receiver asked for, in milliseconds. */
  | {
      readonly _tag: "Retry"
      readonly error: string
      readonly status: number | null
      readonly retryAfter: number | null
      readonly fault?: Fault
    }
  /** Another attempt would end no better. */
  | {
      readonly _tag: "Failed"
      readonly error: string
      readonly status: number | null
      readonly fault?: Fault
    }
  /** Nothing was sent and nothing will be: the destination is gone or switched off, the payload is, or the time is over. No attempt. */
  | { readonly _tag: "Refused"; readonly error: string }
  /** The receiver wants nothing more: the delivery fails and its destination is switched off. */
  | { readonly _tag: "Gone"; readonly error: string; readonly status: number | null }

/** `delivery`: the failure is this delivery's alone and counts nothing against its destination, which is well. */
export type Fault = "delivery"

/** How an attempt counts in its destination's health; `ignored` leaves the health as it is. The words of Effect's `CircuitBreaker`. */
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
 * What an outcome makes of a delivery.
 *
 * ```
 *   enqueue ──> pending ──> delivering ──> delivered, partial
 *      │          ^ ^           │ │
 *      │          │ └── again ──┘ └──────> failed
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
 * Judges an outcome. `made`: the attempts since the delivery was queued or replayed, this one included; a replay has the
 * whole schedule before it again. `left`: the milliseconds in which another may begin.
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
