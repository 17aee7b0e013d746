import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { STREAM_HEADERS } from "../../approvals/sseFrames.ts"
import { ApprovalFeed } from "../ApprovalFeed.ts"

/** The handlers of `/console/inbox`. */
export const ConsoleInboxHttp = HttpApiBuilder.group(
  ConsoleApi,
  "inbox",
  Effect.fnUntraced(function* (handlers) {
    const feed = yield* ApprovalFeed
    return handlers.handleAll({
      list: ({ query }) => feed.list(query),
      get: ({ params }) => feed.get(params.id),
      context: ({ params }) => feed.context(params.id),
      compare: ({ payload }) => Effect.map(feed.compare(payload.approval_ids), (items) => ({ items })),
      count: () => feed.count,
      stream: () =>
        Effect.map(feed.open, (events) =>
          // The feed encodes its frames itself, once for all subscribers.
          HttpServerResponse.stream(events, {
            contentType: "text/event-stream",
            headers: STREAM_HEADERS
          })
        )
    })
  })
)
