import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { Feedback } from "../Feedback.ts"

/** The handlers of the `feedback` group. */
export const FeedbackHttp = HttpApiBuilder.group(
  Api,
  "feedback",
  Effect.fnUntraced(function* (handlers) {
    const feedback = yield* Feedback
    return handlers.handleAll({
      create: ({ payload }) => feedback.create(payload),
      list: ({ query }) =>
        Effect.map(feedback.list(query), ({ items, next_cursor }) => ({ feedback: items, next_cursor })),
      get: ({ params }) => feedback.get(params.id),
      stage: ({ params }) => feedback.stage(params.id),
      reject: ({ params, payload }) => feedback.reject(params.id, payload?.note ?? null),
      preview: ({ params, query }) => feedback.preview(params.task_id, query),
      promote: ({ params, payload }) => feedback.promote(params.task_id, payload)
    })
  })
)
