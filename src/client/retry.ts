import { Clock, Duration, Effect, Random, Result } from "effect"
import {
  Headers,
  HttpClient,
  type HttpClientRequest,
  type HttpClientResponse,
  HttpClientError
} from "effect/http"

/** How a client treats answers that do not come. */
export interface RetryOptions {
  /** Attempts after the first, where a request may be sent again. Default 3; 0: none. */
  readonly retries?: number
  /** Longest wait for the head of one answer. Default 30 seconds; 150 seconds for `tasks.run`, which takes as long as its model. */
  readonly timeout?: Duration.Input
}

const RETRIES = 3
const TIMEOUT = "30 seconds"

/** A server that asks for more patience than this is not waited for: its answer is the caller's to deal with. */
const MAX_DELAY = Duration.seconds(30)

/** The first wait where the server names none; each further one is twice as long, less up to half. */
const FIRST_WAIT = Duration.millis(200)

/** Answers of a service, or of a proxy before it, that pass by themselves. */
const PASSING: ReadonlySet<number> = new Set([502, 503, 504])

/** With a 502 of its own the service tells of another's failure, after tries of its own: each further one may cost what a model costs. */
const passes = ({ headers, status }: HttpClientResponse.HttpClientResponse): boolean =>
  PASSING.has(status) &&
  !(status === 502 && headers["content-type"]?.startsWith("application/problem+json") === true)

/** Whether sending a request twice is the same as sending it once: it only reads, or it bears an `Idempotency-Key`. */
const isIdempotent = (request: HttpClientRequest.HttpClientRequest): boolean =>
  request.method === "GET" || request.headers["idempotency-key"] !== undefined

/** Answered before anything was done for the request: whatever it asks, it may be sent again. */
const REFUSED = 429

const backoff = (attempt: number) =>
  Effect.map(Random.next, (share) => Duration.times(FIRST_WAIT, 2 ** attempt * (1 - share / 2)))

/** How long to wait before the next attempt; undefined: no further one. */
const waitFor = Effect.fnUntraced(function* (
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
 * A client whose every attempt ends in time, and that sends anew what may be sent again: anything that was answered 429; and what only
 * reads or bears an `Idempotency-Key` also where the connection failed, or 502, 503 or 504 came, unless the 502 is a problem that the
 * service itself tells. It waits as long as `Retry-After` says, up to 30 seconds, and gives the last answer back. Where it was this client
 * that waited no longer, only a `GET` is sent again: the service may be at work on anything else, and ends what nobody waits for.
 */
export const withRetries =
  (options: RetryOptions) =>
  (client: HttpClient.HttpClient): HttpClient.HttpClient => {
    const retries = options.retries ?? RETRIES
    const timeout = Duration.fromInputUnsafe(options.timeout ?? TIMEOUT)
    return HttpClient.transform(client, (send, request) => {
      const late = noAnswer(request, `No answer within ${Duration.format(timeout)}`)
      const once = Effect.timeoutOrElse(send, { duration: timeout, orElse: () => Effect.fail(late) })
      const idempotent = isIdempotent(request)
      const from = (attempt: number): typeof once =>
        attempt >= retries
          ? once
          : Effect.matchEffect(once, {
              onFailure: (error) =>
                idempotent &&
                error.reason._tag === "TransportError" &&
                (error !== late || request.method === "GET")
                  ? again(attempt, undefined, Effect.fail(error))
                  : Effect.fail(error),
              onSuccess: (response) =>
                response.status === REFUSED || (idempotent && passes(response))
                  ? again(attempt, response, Effect.succeed(response))
                  : Effect.succeed(response)
            })
      const again = (
        attempt: number,
        response: HttpClientResponse.HttpClientResponse | undefined,
        asItStands: typeof once
      ): typeof once =>
        Effect.flatMap(waitFor(attempt, response), (wait) =>
          wait === undefined
            ? asItStands
            : discard(response).pipe(Effect.andThen(Effect.sleep(wait)), Effect.andThen(from(attempt + 1)))
        )
      return from(0)
    })
  }

/** Reads the rest of an answer that nobody will see, so that its connection is free for the next attempt. */
const discard = (response: HttpClientResponse.HttpClientResponse | undefined): Effect.Effect<void> =>
  response === undefined
    ? Effect.void
    : response.arrayBuffer.pipe(Effect.timeoutOption("1 second"), Effect.ignore)

const noAnswer = (request: HttpClientRequest.HttpClientRequest, description: string) =>
  new HttpClientError.HttpClientError({
    reason: new HttpClientError.TransportError({ request, description })
  })
