import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { TelemetryDeliveries } from "../../../api/TelemetryDestinations.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { Telemetry } from "../Telemetry.ts"

const respondTelemetryDeliveries = jsonResponse(TelemetryDeliveries)

/** Handlers of `/v1/telemetry-destinations`. */
export const TelemetryHttp = HttpApiBuilder.group(
  Api,
  "telemetryDestinations",
  Effect.fnUntraced(function* (handlers) {
    const telemetry = yield* Telemetry
    return handlers.handleAll({
      list: () => Effect.map(telemetry.list, (destinations) => ({ destinations })),
      create: ({ payload }) => telemetry.create(payload),
      test: ({ params }) => Effect.as(telemetry.test(params.id), { delivered: true as const }),
      remove: ({ params }) => telemetry.remove(params.id),
      listDeliveries: ({ params }) =>
        Effect.flatMap(telemetry.deliveries(params.id), (deliveries) =>
          respondTelemetryDeliveries({ deliveries })
        ),
      replayDelivery: ({ params }) =>
        Effect.as(telemetry.replay(params.id, params.delivery_id), {
          queued: true as const,
          id: params.delivery_id
        })
    })
  })
)
