import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { TelemetryDeliveryId, TelemetryDestinationId } from "../domain/Ids.ts"
import { documented } from "../domain/documented.ts"
import { MAX_HEADERS } from "../domain/telemetry/CollectorHeaders.ts"
import {
  Compression,
  ScoreFormat,
  TelemetryDelivery,
  TelemetryDestination,
  TraceMode
} from "../domain/telemetry/TelemetryDestination.ts"
import { publicUrl } from "./Text.ts"
import { Authentication, requires } from "./Authorization.ts"
import { Idempotent, idempotencyHeaders, RequestBody, WaitsByDesign } from "./Middleware.ts"
import {
  DestinationExists,
  ExportFailed,
  InsufficientScope,
  InvalidHeaders,
  InvalidUrl,
  NotFound,
  NotReplayable,
  QueueFull,
  RateLimited
} from "./Problems.ts"

export const NewTelemetryDestination = Schema.Struct({
  url: Schema.String.check(publicUrl).annotateKey({
    description:
      "HTTPS URL of the collector's OTLP/HTTP endpoint, on a public host, without credentials. Used as given, except that an empty path becomes `/v1/traces`."
  }),
  headers: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.String).check(documented({ maxProperties: MAX_HEADERS }))
  ).annotateKey({
    description:
      "Headers to send with each request, by name, such as an authorization header. At most 10, none that belong to the connection, trace context or cookies. Stored encrypted, never returned. Default none."
  }),
  content: Schema.optionalKey(Schema.Boolean).annotateKey({
    description:
      "Whether to export inputs, answers, arguments and results too, after redaction of secrets. The calling key needs the scopes that read them: `runs.read`, `feedback.read`, `sessions.read` and `approvals.read`. Default false."
  }),
  trace: Schema.optionalKey(TraceMode).annotateKey({
    description: "The traces that runs belong to. Default `own`."
  }),
  scores: Schema.optionalKey(ScoreFormat).annotateKey({
    description:
      "How feedback is exported as a score. Default `span`. `log`, `langfuse` and `phoenix` send scores in requests of their own, with the same headers, to a path beside that of the URL, which must be the tool's path of OTLP traces."
  }),
  compression: Schema.optionalKey(Compression).annotateKey({
    description: "Whether requests are compressed. Default `auto`."
  })
}).annotate({ identifier: "NewTelemetryDestination", description: "A telemetry destination to create." })
export type NewTelemetryDestination = typeof NewTelemetryDestination.Type

export const CreatedTelemetryDestination = Schema.Struct({
  id: TelemetryDestinationId.annotateKey({ description: "The telemetry destination's ID." }),
  url_hint: Schema.String.annotateKey({ description: "Scheme and host of the URL, with the path masked." })
}).annotate({
  identifier: "CreatedTelemetryDestination",
  description: "A new telemetry destination. Its URL and headers are not shown again."
})
export type CreatedTelemetryDestination = typeof CreatedTelemetryDestination.Type

export const TelemetryDestinations = Schema.Struct({
  destinations: Schema.Array(TelemetryDestination)
    .check(documented({ maxItems: 1 }))
    .annotateKey({
      description: "The organization's telemetry destinations: none or one."
    })
}).annotate({
  identifier: "TelemetryDestinations",
  description: "The organization's telemetry destinations."
})

export const AcceptedTest = Schema.Struct({
  delivered: Schema.Literal(true).annotateKey({ description: "Always true." })
}).annotate({ identifier: "AcceptedTest", description: "The collector accepted the test span." })

export const TelemetryDeliveries = Schema.Struct({
  deliveries: Schema.Array(TelemetryDelivery)
    .check(documented({ maxItems: 50 }))
    .annotateKey({
      description: "The latest 50 deliveries, newest first."
    })
}).annotate({
  identifier: "TelemetryDeliveries",
  description: "The latest deliveries of a telemetry destination."
})

export const QueuedTelemetryDelivery = Schema.Struct({
  queued: Schema.Literal(true).annotateKey({ description: "Always true." }),
  id: TelemetryDeliveryId.annotateKey({ description: "The delivery's ID." })
}).annotate({ identifier: "QueuedTelemetryDelivery", description: "A batch of spans that was queued again." })

export class TelemetryDestinationsApi extends HttpApiGroup.make("telemetryDestinations")
  .add(
    HttpApiEndpoint.get("list", "/", {
      success: TelemetryDestinations
    })
      .middleware(requires("org_config.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listTelemetryDestinations",
          summary: "List telemetry destinations",
          description: "Lists the organization's telemetry destination with its delivery health."
        })
      ),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewTelemetryDestination,
      success: CreatedTelemetryDestination.pipe(HttpApiSchema.status(201)),
      error: [InsufficientScope, InvalidUrl, InvalidHeaders, DestinationExists]
    })
      .middleware(Idempotent)
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createTelemetryDestination",
          summary: "Create a telemetry destination",
          description:
            "From now on, runs, steps, outcomes, approvals and feedback are exported as spans to this collector. An organization can have one. Admins get an email when content is exported, and when the host is another one than before."
        })
      ),
    HttpApiEndpoint.post("test", "/:id/test", {
      params: { id: TelemetryDestinationId.annotateKey({ description: "The telemetry destination's ID." }) },
      success: AcceptedTest,
      error: [NotFound, RateLimited, ExportFailed]
    })
      .middleware(requires("org_config.write"))
      .annotate(WaitsByDesign, true)
      .annotateMerge(
        OpenApi.annotations({
          identifier: "testTelemetryDestination",
          summary: "Test a telemetry destination",
          description:
            "Sends one span named `svc.test`, without retries, and waits for the collector's response. Not counted in metrics. Limited to once per 10 s."
        })
      ),
    HttpApiEndpoint.delete("remove", "/:id", {
      params: { id: TelemetryDestinationId.annotateKey({ description: "The telemetry destination's ID." }) },
      error: NotFound
    })
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "removeTelemetryDestination",
          summary: "Remove a telemetry destination",
          description:
            "Removes the destination. Queued spans are dropped, and failed batches can no longer be replayed."
        })
      ),
    HttpApiEndpoint.get("listDeliveries", "/:id/deliveries", {
      params: { id: TelemetryDestinationId.annotateKey({ description: "The telemetry destination's ID." }) },
      success: TelemetryDeliveries,
      error: NotFound
    })
      .middleware(requires("org_config.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listTelemetryDeliveries",
          summary: "List a telemetry destination's deliveries",
          description: "Lists the latest 50 batches of spans and scores, newest first."
        })
      ),
    HttpApiEndpoint.post("replayDelivery", "/:id/deliveries/:delivery_id/replay", {
      params: {
        id: TelemetryDestinationId.annotateKey({ description: "The telemetry destination's ID." }),
        delivery_id: TelemetryDeliveryId.annotateKey({ description: "The delivery's ID." })
      },
      success: QueuedTelemetryDelivery,
      error: [NotFound, NotReplayable, QueueFull]
    })
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "replayTelemetryDelivery",
          summary: "Replay a batch of spans",
          description:
            "Queues a failed batch again, with the full retry schedule. Batches are retained for 72 hours. A batch that was accepted in part cannot be replayed, because a collector does not say which spans it rejected."
        })
      )
  )
  .prefix("/v1/telemetry-destinations")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Telemetry destinations",
      description:
        "A telemetry destination is the organization's own OpenTelemetry collector. It receives spans of runs, steps, approvals and feedback by OTLP/HTTP JSON."
    })
  ) {}
