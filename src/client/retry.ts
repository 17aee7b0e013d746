import { Clock, Context, Duration, Effect, Random } from "effect"
import { HttpClient, HttpClientError, type HttpClientRequest, HttpClientResponse } from "effect/http"
import { type AttemptOutcome, DEFAULT_RETRIES, DEFAULT_TIMEOUT, retryDelay } from "./retryPolicy.ts"
import { reasonOf, TIMEOUT } from "./ServiceUnreachable.ts"

/** Timeouts and retries of a client. */
export interface RetryOptions {
  /** Maximum retries of an idempotent request. Default 3; 0 disables retries. */
  readonly retries?: number
  /**
   * Timeout of one attempt, up to the response headers, and as much again for the body of a response that is no stream. Default 30 seconds;
   * 150 seconds for `tasks.run`, which waits for its model.
   */
  readonly timeout?: Duration.Input
}

/** Options of one call in place of the client's. */
export const CallRetryOptions = Context.Reference<Required<RetryOptions> | undefined>(
  "countersign/client/CallRetryOptions",
  { defaultValue: () => undefined }
)

/** Adds timeouts and the retries of {@link retryDelay} to an HTTP client. */
export const withRetries =
  ({ retries = DEFAULT_RETRIES, timeout: limit = DEFAULT_TIMEOUT }: RetryOptions) =>
  (client: HttpClient.HttpClient): HttpClient.HttpClient => {
    const options = { retries, timeout: Duration.fromInputUnsafe(limit) }
    return HttpClient.transform(client, (send, request) =>
      Effect.flatMap(CallRetryOptions, (own = options) => {
        const timeout = Duration.fromInputUnsafe(own.timeout)
        const sendOnce = Effect.timeoutOrElse(send, {
          duration: timeout,
          orElse: () => Effect.fail(lateError(request, `no response within ${Duration.format(timeout)}`))
        })
        const idempotencyKey = request.headers["idempotency-key"]
        const sendFrom = (attempt: number): typeof sendOnce =>
          Effect.flatMap(
            Effect.result(sendOnce),
            Effect.fnUntraced(function* (sent) {
              const delay = retryDelay(
                { method: request.method, idempotencyKey, retries: own.retries },
                attempt,
                sent._tag === "Success" ? responseOutcome(sent.success) : failureOutcome(sent.failure),
                yield* Clock.currentTimeMillis,
                yield* Random.next
              )
              if (delay === undefined) {
                return yield* Effect.flatMap(Effect.fromResult(sent), (response) =>
                  withBody(response, request, timeout)
                )
              }
              if (sent._tag === "Success") yield* discard(sent.success)
              yield* Effect.sleep(delay)
              return yield* sendFrom(attempt + 1)
            })
          )
        return sendFrom(0)
      })
    )
  }

const responseOutcome = ({ headers, status }: HttpClientResponse.HttpClientResponse): AttemptOutcome => ({
  status,
  contentType: headers["content-type"],
  retryAfter: headers["retry-after"]
})

/** A request that could not be built has a status, which no retry changes. */
const failureOutcome = ({ reason }: HttpClientError.HttpClientError): AttemptOutcome =>
  reason._tag === "TransportError"
    ? { reason: reasonOf(reason.cause) }
    : { status: 0, contentType: undefined, retryAfter: undefined }

/** Reads the body of a JSON response, for as long as the response headers may take. Others can be streams. */
const withBody = (
  response: HttpClientResponse.HttpClientResponse,
  request: HttpClientRequest.HttpClientRequest,
  timeout: Duration.Duration
): Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError> => {
  const { headers, status } = response
  if (!/^application\/(?:problem\+)?json\b/.test(headers["content-type"] ?? ""))
    return Effect.succeed(response)
  return response.text.pipe(
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () => Effect.fail(lateError(request, `no whole response within ${Duration.format(timeout)}`))
    }),
    Effect.map((text) => HttpClientResponse.fromWeb(request, new Response(text, { status, headers })))
  )
}

/** Reads the rest of a discarded response, so that its connection is free for the next attempt. */
const discard = (response: HttpClientResponse.HttpClientResponse): Effect.Effect<void> =>
  response.arrayBuffer.pipe(Effect.timeoutOption("1 second"), Effect.ignore)

const lateError = (request: HttpClientRequest.HttpClientRequest, description: string) =>
  new HttpClientError.HttpClientError({
    reason: new HttpClientError.TransportError({ request, description, cause: { code: TIMEOUT } })
  })
