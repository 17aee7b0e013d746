import { Clock, Duration, Effect, Random, Result } from "effect"
import {
  Headers,
  HttpClient,
  type HttpClientRequest,
  type HttpClientResponse,
  HttpClientError
} from "effect/http"

/** Timeouts and retries of a client. */
export interface RetryOptions {
  /** Maximum retries of an idempotent request. Default 3; 0 disables retries. */
  readonly retries?: number
  /** Timeout of one attempt, up to the response headers. Default 30 seconds; 150 seconds for `tasks.run`, which waits for its model. */
  readonly timeout?: Duration.Input
}

const DEFAULT_RETRIES = 3
const DEFAULT_TIMEOUT = "30 seconds"

/** A longer `Retry-After` is not waited for: the response is returned to the caller. */
const MAX_DELAY = Duration.seconds(30)

/** The first backoff without `Retry-After`; each following one doubles, less up to half as jitter. */
const FIRST_DELAY = Duration.millis(200)

/** Transient statuses of the service or of a proxy in front of it. */
const TRANSIENT: ReadonlySet<number> = new Set([502, 503, 504])

/**
 * A 502 with a problem body is the service reporting another server's failure after its own retries: each further attempt may cost a model
 * call.
 */
const isTransientResponse = ({ headers, status }: HttpClientResponse.HttpClientResponse): boolean =>
  TRANSIENT.has(status) &&
  !(status === 502 && headers["content-type"]?.startsWith("application/problem+json") === true)

/** Whether a request is idempotent: a read, or a request with an `Idempotency-Key`. */
const isIdempotent = (request: HttpClientRequest.HttpClientRequest): boolean =>
  request.method === "GET" || request.headers["idempotency-key"] !== undefined

/** Rejected before processing, so any request may be retried. */
const TOO_MANY_REQUESTS = 429

const backoff = (attempt: number) =>
  Effect.map(Random.next, (share) => Duration.times(FIRST_DELAY, 2 ** attempt * (1 - share / 2)))

/** Returns the delay before the next attempt; undefined if there is none. */
const delayBefore = Effect.fnUntraced(function* (
  attempt: number,
  response: HttpClientResponse.HttpClientResponse | undefined
) {
  const header = response?.headers["retry-after"]
  const requested = header === undefined ? undefined : Headers.parseRetryAfter(header)
  if (requested === undefined || Result.isFailure(requested)) return yield* backoff(attempt)
  const delay = Headers.retryAfterDelay(requested.success, yield* Clock.currentTimeMillis)
  return Duration.isGreaterThan(delay, MAX_DELAY) ? undefined : delay
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
    const retries = options.retries ?? DEFAULT_RETRIES
    const timeout = Duration.fromInputUnsafe(options.timeout ?? DEFAULT_TIMEOUT)
    return HttpClient.transform(client, (send, request) => {
      const timeoutError = transportError(request, `No response within ${Duration.format(timeout)}`)
      const sendOnce = Effect.timeoutOrElse(send, {
        duration: timeout,
        orElse: () => Effect.fail(timeoutError)
      })
      const idempotent = isIdempotent(request)
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
                response.status === TOO_MANY_REQUESTS || (idempotent && isTransientResponse(response))
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

const transportError = (request: HttpClientRequest.HttpClientRequest, description: string) =>
  new HttpClientError.HttpClientError({
    reason: new HttpClientError.TransportError({ request, description })
  })
