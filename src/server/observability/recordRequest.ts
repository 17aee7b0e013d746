import { Clock, Context, Effect, type Exit } from "effect"
import type { HttpServerResponse } from "effect/http"
import { httpRequestDuration, httpRequests } from "./metricDefinitions.ts"

/** The status label of a request whose client disconnected before the response. */
export const CLIENT_DISCONNECTED = 499

/**
 * Counts a request of an operation and records its duration. It runs around every request, so it adds neither a span nor a fiber, and finds
 * its metrics once.
 */
export const recordRequest = <E, R>(
  operation: string,
  request: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R> => {
  const duration = httpRequestDuration(operation)
  const byStatus = new Map<number, ReturnType<typeof httpRequests>>()
  const requestsOf = (status: number) => {
    const known = byStatus.get(status)
    if (known !== undefined) return known
    const requests = httpRequests(operation, String(status))
    byStatus.set(status, requests)
    return requests
  }
  return Effect.contextWith((context: Context.Context<never>) => {
    const clock = Context.get(context, Clock.Clock)
    const startedAt = clock.monotonicTimeNanosUnsafe()
    return Effect.onExit(request, (exit: Exit.Exit<HttpServerResponse.HttpServerResponse, E>) =>
      Effect.sync(() => {
        const seconds = Number(clock.monotonicTimeNanosUnsafe() - startedAt) / 1e9
        requestsOf(exit._tag === "Success" ? exit.value.status : CLIENT_DISCONNECTED).updateUnsafe(1, context)
        duration.updateUnsafe(seconds, context)
      })
    )
  })
}
