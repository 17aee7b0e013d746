import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal } from "../../../api/Authorization.ts"
import { ConsoleApi } from "../../../api/Console.ts"
import { ConsoleSessions } from "../ConsoleSessions.ts"

/** The handlers of `/console/sign-ins`. */
export const ConsoleSignInsHttp = HttpApiBuilder.group(
  ConsoleApi,
  "sign_ins",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* ConsoleSessions
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.flatMap(CurrentPrincipal, (principal) =>
          Effect.map(sessions.list(principal, query), ({ items, next_cursor }) => ({
            sessions: items,
            next_cursor
          }))
        ),
      end: ({ params }) => Effect.flatMap(CurrentPrincipal, (principal) => sessions.end(principal, params.id))
    })
  })
)
