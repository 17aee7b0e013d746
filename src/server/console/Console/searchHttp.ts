import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal } from "../../../api/Authorization.ts"
import { ConsoleApi } from "../../../api/Console.ts"
import { RequestCharges } from "../../identity/RequestCharges.ts"
import { Search } from "../Search.ts"

/** Requests of the rate limits that one search counts as: it examines thousands of rows. */
const REQUESTS_PER_SEARCH = 5

/** The handler of `/console/find`. */
export const ConsoleSearchHttp = HttpApiBuilder.group(
  ConsoleApi,
  "search",
  Effect.fnUntraced(function* (handlers) {
    const search = yield* Search
    const charges = yield* RequestCharges
    return handlers.handleAll({
      find: Effect.fnUntraced(function* ({ query }) {
        const principal = yield* CurrentPrincipal
        yield* charges.charge(principal, REQUESTS_PER_SEARCH - 1)
        return yield* search.find(principal, query)
      })
    })
  })
)
