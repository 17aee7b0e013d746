import { Clock, Context, Effect, type Exit } from "effect"
import type { HttpServerResponse } from "effect/http"
import { httpRequests, httpRequestDuration } from "../metricDefinitions.ts"

/** What stands for the status where the caller left before there was one. */
const LEFT = "499"

/** Counts a request to an operation and notes how long it took. Without a span or a fiber of its own: it is around every request. */
export const recordRequest = <E, R>(
  operation: string,
  request: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const clock = Context.get(context, Clock.Clock)
    const began = clock.monotonicTimeNanosUnsafe()
    return Effect.onExit(request, (exit: Exit.Exit<HttpServerResponse.HttpServerResponse, E>) =>
      Effect.sync(() => {
        const seconds = Number(clock.monotonicTimeNanosUnsafe() - began) / 1e9
        const status = exit._tag === "Success" ? String(exit.value.status) : LEFT
        httpRequests(operation, status).updateUnsafe(1, context)
        httpRequestDuration(operation).updateUnsafe(seconds, context)
      })
    )
  })
