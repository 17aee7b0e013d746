import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { ConsoleDeliveries } from "../ConsoleDeliveries.ts"

/** The handlers of `/console/delivery-log`. */
export const ConsoleDeliveriesHttp = HttpApiBuilder.group(
  ConsoleApi,
  "deliveries",
  Effect.fnUntraced(function* (handlers) {
    const deliveries = yield* ConsoleDeliveries
    return handlers.handleAll({
      list: ({ query }) => deliveries.list(query),
      get: ({ params }) => deliveries.get(params),
      batches: ({ query }) => deliveries.batches(query),
      health: () => Effect.map(deliveries.health, (endpoints) => ({ endpoints })),
      replay: ({ payload }) => Effect.map(deliveries.replay(payload.deliveries), (results) => ({ results }))
    })
  })
)
