import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { TelemetryDeliveryId, TelemetryDestinationId } from "../Ids.ts"
import { timestamp, Timestamp } from "../Time.ts"

export const TelemetryDestination = Schema.Struct({
  id: TelemetryDestinationId.annotateKey({ description: "The telemetry destination's ID." }),
  url_hint: Schema.String.annotateKey({
    description:
      "Scheme and host of the collector's URL, with the path masked. The URL itself is never returned."
  }),
  created_at: timestamp("When the destination was created."),
  last_delivered_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the collector last accepted a batch. Null if it has accepted none."
  }),
  last_error: Schema.NullOr(Schema.String).annotateKey({
    description: "Why the most recent of the retained failed attempts failed. Null if none failed."
  }),
  pending_spans: Schema.Int.annotateKey({
    description: "Spans not yet accepted, including those being sent."
  }),
  dropped_spans: Schema.Int.annotateKey({
    description:
      "Sampled spans that will not arrive: over a limit, rejected by the collector, or too old to retry."
  })
}).annotate({
  identifier: "TelemetryDestination",
  description:
    "The OpenTelemetry collector that the organization's spans are sent to, without its URL and headers."
})
export type TelemetryDestination = typeof TelemetryDestination.Type

export const TelemetryDeliveryStatus = documentedEnum({
  pending: "It is queued, is being sent, or waits for a retry.",
  delivered: "The collector accepted all of it. Final.",
  failed: "All attempts failed. It can be replayed.",
  partial: "The collector rejected some of its spans, without saying which. Final."
})
export type TelemetryDeliveryStatus = typeof TelemetryDeliveryStatus.Type

export const TelemetryDelivery = Schema.Struct({
  id: TelemetryDeliveryId.annotateKey({ description: "The delivery's ID." }),
  status: TelemetryDeliveryStatus.annotateKey({ description: "The delivery's status." }),
  span_count: Schema.Int.annotateKey({ description: "Spans in the batch." }),
  rejected_spans: Schema.Int.annotateKey({ description: "Spans of the batch that the collector rejected." }),
  attempts: Schema.Int.annotateKey({ description: "Attempts made, including those before a replay." }),
  replays: Schema.Int.annotateKey({ description: "How many times it was replayed." }),
  http_status: Schema.NullOr(Schema.Int).annotateKey({
    description: "HTTP status of the collector's last response. Null if it has not responded."
  }),
  last_error: Schema.NullOr(Schema.String).annotateKey({
    description: "Why the last attempt failed, in this service's words. Null if it did not fail."
  }),
  created_at: timestamp("When the batch was queued."),
  finished_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When it was delivered or failed. Null while it is pending."
  })
}).annotate({
  identifier: "TelemetryDelivery",
  description: "One batch of spans on its way to the collector."
})
export type TelemetryDelivery = typeof TelemetryDelivery.Type
