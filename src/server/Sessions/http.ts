import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../api/Api.ts"
import { Sessions } from "../Sessions.ts"
import { Steps } from "../Steps.ts"

/** The handlers of `/v1/agent-sessions`. */
export const SessionsHttp = HttpApiBuilder.group(
  Api,
  "sessions",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* Sessions
    const steps = yield* Steps
    return handlers.handleAll({
      create: ({ payload }) => sessions.create(payload),
      list: ({ query }) =>
        Effect.map(sessions.list(query), ({ items, next_cursor }) => ({ sessions: items, next_cursor })),
      get: ({ params }) => sessions.get(params.id),
      step: ({ params, payload }) => steps.check(params.id, payload),
      complete: ({ params, payload }) => steps.complete(params.id, params.step_id, payload),
      close: ({ params }) => sessions.close(params.id)
    })
  })
)
