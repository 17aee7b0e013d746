import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { TelemetryDeliveryId, TelemetryDestinationId } from "../domain/Ids.ts"
import { TelemetryDelivery, TelemetryDestination } from "../domain/telemetry/TelemetryDestination.ts"
import { Authentication, requires } from "./Authorization.ts"
import { Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import {
  DestinationExists,
  ExportFailed,
  InvalidHeaders,
  InvalidUrl,
  NotFound,
  NotReplayable,
  QueueFull,
  RateLimited
} from "./Problems.ts"

/** What a new destination is made of. */
export const NewTelemetryDestination = Schema.Struct({
  /** Used as it is given; an empty path becomes `/v1/traces`. */
  url: Schema.String,
  /** Sent with each request, by name: what authenticates there. */
  headers: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
  /** Whether inputs, answers, arguments and results are exported too, secrets removed. Default false. */
  content: Schema.optionalKey(Schema.Boolean)
}).annotate({ identifier: "NewTelemetryDestination" })
export type NewTelemetryDestination = typeof NewTelemetryDestination.Type

/** A destination that was made. Its URL and its headers are not shown again. */
export const CreatedTelemetryDestination = Schema.Struct({
  id: TelemetryDestinationId,
  url_hint: Schema.String
}).annotate({ identifier: "CreatedTelemetryDestination" })
export type CreatedTelemetryDestination = typeof CreatedTelemetryDestination.Type

/** The organization's destinations: one at most. */
export const TelemetryDestinations = Schema.Struct({
  destinations: Schema.Array(TelemetryDestination)
}).annotate({ identifier: "TelemetryDestinations" })

/** The collector accepted the test span. */
export const AcceptedTest = Schema.Struct({ delivered: Schema.Literal(true) }).annotate({
  identifier: "AcceptedTest"
})

/** A destination's latest 50 deliveries, newest first. */
export const TelemetryDeliveries = Schema.Struct({
  deliveries: Schema.Array(TelemetryDelivery)
}).annotate({ identifier: "TelemetryDeliveries" })

/** A batch that waits to be sent again. */
export const QueuedTelemetryDelivery = Schema.Struct({
  queued: Schema.Literal(true),
  id: TelemetryDeliveryId
}).annotate({ identifier: "QueuedTelemetryDelivery" })

/** The organization's OTLP/HTTP JSON trace collector. */
export class TelemetryDestinationsApi extends HttpApiGroup.make("telemetry_destinations")
  .add(
    HttpApiEndpoint.get("list", "/", {
      success: TelemetryDestinations
    })
      .middleware(requires("org_config.read"))
      .annotate(
        OpenApi.Description,
        "The organization's collector, with how its export fares; its URL and headers are never shown."
      ),
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewTelemetryDestination,
      success: CreatedTelemetryDestination.pipe(HttpApiSchema.status(201)),
      error: [InvalidUrl, InvalidHeaders, DestinationExists]
    })
      .middleware(Idempotent)
      .middleware(requires("org_config.write"))
      .annotate(
        OpenApi.Description,
        "Runs, steps, outcomes, approvals and feedback are exported from here on as spans. The URL must be public HTTPS and hold no credentials; at most 10 headers, none that the connection, trace context or cookies own."
      ),
    HttpApiEndpoint.post("test", "/:id/test", {
      params: { id: TelemetryDestinationId },
      success: AcceptedTest,
      error: [NotFound, RateLimited, ExportFailed]
    })
      .middleware(requires("org_config.write"))
      .annotate(
        OpenApi.Description,
        "Sends one span named `svc.test`, once, and waits for the collector's answer. Counts in no figure; once in 10 seconds."
      ),
    HttpApiEndpoint.delete("remove", "/:id", {
      params: { id: TelemetryDestinationId },
      error: NotFound
    })
      .middleware(requires("org_config.write"))
      .annotate(
        OpenApi.Description,
        "Spans that wait are dropped, and failed batches cannot be replayed any more."
      ),
    HttpApiEndpoint.get("deliveries", "/:id/deliveries", {
      params: { id: TelemetryDestinationId },
      success: TelemetryDeliveries,
      error: NotFound
    })
      .middleware(requires("org_config.read"))
      .annotate(OpenApi.Description, "The latest 50 batches, newest first."),
    HttpApiEndpoint.post("replay", "/:id/deliveries/:delivery/replay", {
      params: { id: TelemetryDestinationId, delivery: TelemetryDeliveryId },
      success: QueuedTelemetryDelivery,
      error: [NotFound, NotReplayable, QueueFull]
    })
      .middleware(requires("org_config.write"))
      .annotate(
        OpenApi.Description,
        "Queues a failed batch again, with the whole retry schedule before it. A batch is kept for 72 hours; one that was accepted in part is not replayed, since a collector does not say which spans it rejected."
      )
  )
  .prefix("/v1/telemetry-destinations")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Telemetry destinations",
      description: "Spans of runs, steps and approvals, sent to the organization's own collector."
    })
  ) {}
