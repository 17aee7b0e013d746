import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { DeliveryHealth } from "../DeliveryHealth.ts"

/** The handlers of `/console/health`. */
export const ConsoleHealthHttp = HttpApiBuilder.group(
  ConsoleApi,
  "health",
  Effect.fnUntraced(function* (handlers) {
    const health = yield* DeliveryHealth
    return handlers.handleAll({
      get: ({ params }) => Effect.map(health.hourly(params.id), (buckets) => ({ buckets }))
    })
  })
)
