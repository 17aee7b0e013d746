import { Clock, Duration, Effect, Random } from "effect"
import { HttpClient, type HttpClientRequest, type HttpClientResponse, HttpClientError } from "effect/http"
import type { RetryOptions } from "./ClientOptions.ts"
import * as policy from "./retryPolicy.ts"
import { TIMEOUT } from "./ServiceUnreachable.ts"

const isRetriable = (
  { headers, status }: HttpClientResponse.HttpClientResponse,
  idempotent: boolean
): boolean => policy.isRetriable({ status, contentType: headers["content-type"] }, idempotent)

/** Returns the delay before the next attempt; undefined if there is none. */
const delayBefore = Effect.fnUntraced(function* (
  attempt: number,
  response: HttpClientResponse.HttpClientResponse | undefined
) {
  const now = yield* Clock.currentTimeMillis
  return policy.retryDelay(attempt, response?.headers["retry-after"], now, yield* Random.next)
})

/**
 * Adds timeouts and retries to an HTTP client. Any request is retried after a 429. Idempotent requests (reads, and requests with an
 * `Idempotency-Key`) are retried after a failed connection or 502, 503 or 504, unless the 502 is the service's own problem. The delay
 * follows `Retry-After` up to 30 seconds; the last response is returned. After this client's own timeout only a `GET` is retried: the
 * service may still be processing any other request, and cancels a request whose client disconnected.
 */
export const withRetries =
  (options: RetryOptions) =>
  (client: HttpClient.HttpClient): HttpClient.HttpClient => {
    const retries = options.retries ?? policy.DEFAULT_RETRIES
    const timeout = Duration.fromInputUnsafe(options.timeout ?? policy.DEFAULT_TIMEOUT)
    return HttpClient.transform(client, (send, request) => {
      const timeoutError = lateError(request, `no response within ${Duration.format(timeout)}`)
      const sendOnce = Effect.timeoutOrElse(send, {
        duration: timeout,
        orElse: () => Effect.fail(timeoutError)
      })
      const idempotent = policy.isIdempotent(request.method, request.headers["idempotency-key"])
      const sendFrom = (attempt: number): typeof sendOnce =>
        attempt >= retries
          ? sendOnce
          : Effect.matchEffect(sendOnce, {
              onFailure: (error) =>
                idempotent &&
                error.reason._tag === "TransportError" &&
                (error !== timeoutError || request.method === "GET")
                  ? retryOr(attempt, undefined, Effect.fail(error))
                  : Effect.fail(error),
              onSuccess: (response) =>
                isRetriable(response, idempotent)
                  ? retryOr(attempt, response, Effect.succeed(response))
                  : Effect.succeed(response)
            })
      const retryOr = (
        attempt: number,
        response: HttpClientResponse.HttpClientResponse | undefined,
        result: typeof sendOnce
      ): typeof sendOnce =>
        Effect.flatMap(delayBefore(attempt, response), (wait) =>
          wait === undefined
            ? result
            : discard(response).pipe(
                Effect.andThen(Effect.sleep(wait)),
                Effect.andThen(sendFrom(attempt + 1))
              )
        )
      return sendFrom(0)
    })
  }

/** Reads the rest of a discarded response, so that its connection is free for the next attempt. */
const discard = (response: HttpClientResponse.HttpClientResponse | undefined): Effect.Effect<void> =>
  response === undefined
    ? Effect.void
    : response.arrayBuffer.pipe(Effect.timeoutOption("1 second"), Effect.ignore)

const lateError = (request: HttpClientRequest.HttpClientRequest, description: string) =>
  new HttpClientError.HttpClientError({
    reason: new HttpClientError.TransportError({ request, description, cause: { code: TIMEOUT } })
  })
