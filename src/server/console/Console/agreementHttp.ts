import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { AgreementHistory } from "../AgreementHistory.ts"

/** The handlers of `/console/agreement`. */
export const ConsoleAgreementHttp = HttpApiBuilder.group(
  ConsoleApi,
  "agreement",
  Effect.fnUntraced(function* (handlers) {
    const history = yield* AgreementHistory
    return handlers.handleAll({
      history: ({ params }) => Effect.map(history.read(params.id), (releases) => ({ releases }))
    })
  })
)
