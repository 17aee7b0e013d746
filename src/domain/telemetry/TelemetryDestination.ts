import { Schema } from "effect"
import { TelemetryDeliveryId, TelemetryDestinationId } from "../Ids.ts"
import { Timestamp } from "../Time.ts"

/** An organization's collector, as it is shown: never its URL nor its headers. */
export const TelemetryDestination = Schema.Struct({
  id: TelemetryDestinationId,
  /** Scheme, host, and a masked path. */
  url_hint: Schema.String,
  created_at: Timestamp,
  last_delivered_at: Schema.NullOr(Timestamp),
  /** What went wrong with the last failed attempt of those that are kept, in a phrase of ours; null: none failed. */
  last_error: Schema.NullOr(Schema.String),
  /** Spans that wait to be accepted, those in flight included. */
  pending_spans: Schema.Int,
  /** Spans that were sampled and will not arrive: over the limits, rejected by the collector, or too old to be sent again. */
  dropped_spans: Schema.Int
}).annotate({ identifier: "TelemetryDestination" })
export type TelemetryDestination = typeof TelemetryDestination.Type

/** Where a batch of spans stands. `partial`: accepted but for some, and the collector does not say which. */
export const TelemetryDeliveryStatus = Schema.Literals(["pending", "delivered", "failed", "partial"])
export type TelemetryDeliveryStatus = typeof TelemetryDeliveryStatus.Type

/** One batch of spans on its way to the collector: without its payload. */
export const TelemetryDelivery = Schema.Struct({
  id: TelemetryDeliveryId,
  status: TelemetryDeliveryStatus,
  span_count: Schema.Int,
  /** Spans that the collector took the batch without. */
  rejected_spans: Schema.Int,
  /** Attempts made, those before a replay included. */
  attempts: Schema.Int,
  replays: Schema.Int,
  /** What the collector answered last; null: nothing. */
  http_status: Schema.NullOr(Schema.Int),
  /** A phrase of ours, never what the collector said. */
  last_error: Schema.NullOr(Schema.String),
  created_at: Timestamp,
  finished_at: Schema.NullOr(Timestamp)
}).annotate({ identifier: "TelemetryDelivery" })
export type TelemetryDelivery = typeof TelemetryDelivery.Type
