import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { DatasetChanges } from "../DatasetChanges.ts"

/** The handlers of `/console/datasets`. */
export const ConsoleDatasetsHttp = HttpApiBuilder.group(
  ConsoleApi,
  "dataset_changes",
  Effect.fnUntraced(function* (handlers) {
    const changes = yield* DatasetChanges
    return handlers.handleAll({
      get: ({ params, query }) => changes.between(params.id, query.since)
    })
  })
)
