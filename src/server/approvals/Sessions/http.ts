import { Effect, Option } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { AgentSessionPage } from "../../../api/AgentSessions.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { stepWarnings } from "../../../domain/approvals/AgentSession.ts"
import { Sessions } from "../Sessions.ts"
import { SessionStream } from "../SessionStream.ts"
import { STREAM_HEADERS } from "../sseFrames.ts"
import { Steps } from "../Steps.ts"

const respondAgentSessionPage = jsonResponse(AgentSessionPage)

/** The handlers of `/v1/agent-sessions`. */
export const SessionsHttp = HttpApiBuilder.group(
  Api,
  "sessions",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* Sessions
    const steps = yield* Steps
    const streams = yield* SessionStream
    return handlers.handleAll({
      create: ({ payload }) => sessions.create(payload),
      list: ({ query }) =>
        Effect.flatMap(sessions.list(query), ({ items, next_cursor }) =>
          respondAgentSessionPage({ sessions: items, next_cursor })
        ),
      get: ({ params }) => sessions.get(params.id),
      step: ({ params, payload }) => {
        const warnings = stepWarnings(payload.arguments)
        const answer = steps.check(params.id, payload)
        return warnings.length === 0 ? answer : Effect.map(answer, (step) => ({ ...step, warnings }))
      },
      reportOutcome: ({ params, payload }) => steps.complete(params.id, params.step_id, payload),
      close: ({ params }) => sessions.close(params.id),
      stream: ({ headers, params, query }) =>
        Effect.map(
          streams.open(params.id, headers["last-event-id"] ?? query.after),
          Option.match({
            onNone: () => HttpServerResponse.empty({ status: 204 }),
            onSome: (events) => HttpServerResponse.stream(events, streamResponse)
          })
        )
    })
  })
)

/** Response options of a stream. Its frames are encoded already: Effect's `Sse` encoder supports neither comments nor `retry`. */
const streamResponse: HttpServerResponse.Options.WithContentType = {
  contentType: "text/event-stream",
  headers: STREAM_HEADERS
}
