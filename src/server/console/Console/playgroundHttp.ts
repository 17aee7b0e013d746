import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { Playground } from "../../tasks/Playground.ts"

/** The handlers of `/console/playground`. */
export const ConsolePlaygroundHttp = HttpApiBuilder.group(
  ConsoleApi,
  "playground",
  Effect.fnUntraced(function* (handlers) {
    const playground = yield* Playground
    return handlers.handleAll({
      answer: ({ params, payload }) => playground.answer(params.id, payload)
    })
  })
)
