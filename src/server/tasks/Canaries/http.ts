import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { Canaries } from "../Canaries.ts"

/** The handlers of the `canaries` group. */
export const CanariesHttp = HttpApiBuilder.group(
  Api,
  "canaries",
  Effect.fnUntraced(function* (handlers) {
    const canaries = yield* Canaries
    return handlers.handleAll({
      get: ({ params }) => canaries.get(params.id),
      start: ({ params, payload }) => canaries.start(params.id, payload),
      stop: ({ params }) => canaries.stop(params.id)
    })
  })
)
