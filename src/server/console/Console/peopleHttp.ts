import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal } from "../../../api/Authorization.ts"
import { ConsoleApi } from "../../../api/Console.ts"
import { People } from "../../identity/People.ts"
import { ConsoleSessions } from "../ConsoleSessions.ts"

/** The handlers of `/console/people-records`. */
export const ConsolePeopleHttp = HttpApiBuilder.group(
  ConsoleApi,
  "people",
  Effect.fnUntraced(function* (handlers) {
    const people = yield* People
    const sessions = yield* ConsoleSessions
    /** Ends the sessions of a person of the organization, not of others. */
    const endSessions = Effect.fnUntraced(function* (id: Parameters<typeof people.get>[0]) {
      yield* people.get(id)
      return yield* sessions.endAllOf(yield* CurrentPrincipal, id)
    })
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.map(people.list(query), ({ items, next_cursor }) => ({ people: items, next_cursor })),
      get: ({ params }) => people.get(params.id),
      end_sessions: ({ params }) => Effect.map(endSessions(params.id), (ended) => ({ ended })),
      block: Effect.fnUntraced(function* ({ params, query }) {
        yield* people.block(params.id, { made_keys: query.made_keys ?? "revoke" })
        yield* endSessions(params.id)
        return yield* people.get(params.id)
      }),
      unblock: ({ params }) => people.unblock(params.id)
    })
  })
)
