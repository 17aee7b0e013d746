import { Effect } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { TaskPage } from "../../../api/Tasks.ts"
import { TRACE_HEADER } from "../../../api/Tasks.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import type { TraceId } from "../../../domain/Ids.ts"
import { Runs } from "../Runs.ts"
import { Tasks } from "../Tasks.ts"

const respondTaskPage = jsonResponse(TaskPage)

/** The handlers of the `tasks` group. */
export const TasksHttp = HttpApiBuilder.group(
  Api,
  "tasks",
  Effect.fnUntraced(function* (handlers) {
    const tasks = yield* Tasks
    const runs = yield* Runs
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.flatMap(tasks.list(query), ({ items, next_cursor }) =>
          respondTaskPage({ tasks: items, next_cursor })
        ),
      create: ({ payload }) => tasks.create(payload),
      get: ({ params }) => tasks.get(params.id),
      update: ({ params, payload }) => tasks.update(params.id, payload),
      remove: ({ params }) => tasks.remove(params.id),
      run: ({ headers, params, payload }) =>
        runs.run(params.id, payload, headers).pipe(
          Effect.tap(({ trace_id }) => setTraceHeader(trace_id)),
          Effect.tapErrorTag(["PROVIDER_FAILED", "NO_NEAR_EXAMPLE"], ({ trace_id }) =>
            trace_id === undefined ? Effect.void : setTraceHeader(trace_id)
          )
        )
    })
  })
)

/** Adds the run's trace id to the response headers, also if the run failed. */
const setTraceHeader = (trace_id: TraceId) =>
  HttpEffect.appendPreResponseHandler((_request, response) =>
    Effect.succeed(HttpServerResponse.setHeader(response, TRACE_HEADER, trace_id))
  )
