import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { TelemetryDeliveryId, TelemetryDestinationId } from "../Ids.ts"
import { timestamp, Timestamp } from "../Time.ts"

export const TraceMode = documentedEnum({
  own: "Each run is a trace of its own, which links to the span of the request's `traceparent`.",
  join: "A run continues the trace of the request's `traceparent`, and is exported if that is sampled. Without one, it is a trace of its own."
})
export type TraceMode = typeof TraceMode.Type

export const ScoreFormat = documentedEnum({
  span: "Attributes `gen_ai.evaluation.*` of the span `svc.feedback`, which all other values have too.",
  log: "Log records `gen_ai.evaluation.result`, sent to `/v1/logs`.",
  langfuse: "Scores, sent to Langfuse's `/api/public/ingestion`.",
  phoenix: "Span annotations, sent to Phoenix's `/v1/span_annotations`; its spans are sent in Protobuf.",
  braintrust: "Attributes of the span that Braintrust reads as a score."
})
export type ScoreFormat = typeof ScoreFormat.Type

export const Compression = documentedEnum({
  auto: "`gzip`, and `none` from then on once the collector has answered 400 or 415 and taken the same request without compression.",
  gzip: "Requests are compressed.",
  none: "Requests are sent as they are."
})
export type Compression = typeof Compression.Type

export const TelemetryDestination = Schema.Struct({
  id: TelemetryDestinationId.annotateKey({ description: "The telemetry destination's ID." }),
  url_hint: Schema.String.annotateKey({
    description:
      "Scheme and host of the collector's URL, with the path masked. The URL itself is never returned."
  }),
  content: Schema.Boolean.annotateKey({
    description: "Whether inputs, answers, arguments and results are exported too."
  }),
  trace: TraceMode.annotateKey({ description: "The traces that runs belong to." }),
  scores: ScoreFormat.annotateKey({ description: "How feedback is exported as a score." }),
  compression: Compression.annotateKey({ description: "Whether requests are compressed." }),
  created_at: timestamp("When the destination was created."),
  last_delivered_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the collector last accepted a batch. Null if it has accepted none."
  }),
  last_error: Schema.NullOr(Schema.String).annotateKey({
    description:
      "Why the most recent failed attempt since `last_delivered_at` failed. Null if none has failed since then."
  }),
  pending_spans: Schema.Int.annotateKey({
    description:
      "Spans not yet accepted, including those being sent. Scores that are sent apart from spans count as spans."
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

export const TelemetrySignal = documentedEnum({
  spans: "Spans.",
  scores: "Scores that are sent apart from spans."
})
export type TelemetrySignal = typeof TelemetrySignal.Type

export const TelemetryDelivery = Schema.Struct({
  id: TelemetryDeliveryId.annotateKey({ description: "The delivery's ID." }),
  signal: TelemetrySignal.annotateKey({ description: "The content of the batch." }),
  status: TelemetryDeliveryStatus.annotateKey({ description: "The delivery's status." }),
  span_count: Schema.Int.annotateKey({ description: "Spans in the batch, or scores." }),
  rejected_spans: Schema.Int.annotateKey({
    description: "Spans or scores of the batch that the collector rejected."
  }),
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
  description: "One batch of spans or scores on its way to the collector."
})
export type TelemetryDelivery = typeof TelemetryDelivery.Type
