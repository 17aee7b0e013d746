import { Schema } from "effect"
import { documented } from "../documented.ts"
import { documentedEnum } from "../documentedEnum.ts"
import { DeliveryId, EventId } from "../Ids.ts"
import { nextDelay, type RetryPolicy } from "./RetryPolicy.ts"
import { timestamp, Timestamp } from "../Time.ts"

export const DeliveryStatus = documentedEnum({
  pending: "It is queued, or waits for a retry.",
  delivering: "An attempt is running. Only the replica that runs it reports this; others report `pending`.",
  delivered: "The receiver answered with a 2xx status. Final.",
  failed: "All attempts failed, or it could not be sent. It can be replayed."
})
export type DeliveryStatus = typeof DeliveryStatus.Type

export const DeliveryRecord = Schema.Struct({
  id: DeliveryId.annotateKey({ description: "The delivery's ID." }),
  event_id: EventId.annotateKey({
    description: "The event's ID: the `id` of the body that the receiver gets."
  }),
  label: Schema.String.annotateKey({
    description: "Describes the event: for an approval event, its type and the approval's ID."
  }),
  status: DeliveryStatus.annotateKey({ description: "The delivery's status." }),
  attempts: Schema.Int.annotateKey({ description: "Attempts made, including those before a replay." }),
  replays: Schema.Int.annotateKey({ description: "How many times it was replayed." }),
  last_error: Schema.NullOr(Schema.String).annotateKey({
    description:
      "Why the last attempt failed, in this service's words, never the receiver's. Null if nothing failed, and after success."
  }),
  created_at: timestamp("When the delivery was created."),
  finished_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When it was delivered or failed. Null while it is pending."
  })
}).annotate({ identifier: "DeliveryRecord", description: "One event on its way to one webhook endpoint." })
export type DeliveryRecord = typeof DeliveryRecord.Type

export const DeliveryAttempt = Schema.Struct({
  attempt: Schema.Int.annotateKey({ description: "Number of the attempt, from 1." }),
  started_at: timestamp("When the attempt started."),
  duration_ms: Schema.Int.annotateKey({ description: "How long it took, in milliseconds." }),
  status: Schema.NullOr(Schema.Int).annotateKey({
    description: "HTTP status of the response. Null if there was none."
  }),
  error: Schema.NullOr(Schema.String).annotateKey({
    description: "Why it failed, in this service's words. Null if it succeeded."
  })
}).annotate({ identifier: "DeliveryAttempt", description: "One attempt to send a delivery." })
export type DeliveryAttempt = typeof DeliveryAttempt.Type

export const DeliveryDetail = Schema.Struct({
  ...DeliveryRecord.fields,
  attempt_log: Schema.Array(DeliveryAttempt)
    .check(documented({ maxItems: 100 }))
    .annotateKey({
      description: "Its latest 100 attempts, oldest first."
    })
}).annotate({ identifier: "DeliveryDetail", description: "A delivery with its attempts." })
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
 * How an attempt counts in its destination's health; `ignored` leaves the health unchanged. The names are from Effect's
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
