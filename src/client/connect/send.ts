/** Sends requests with timeouts and retries. */
import * as Redacted from "effect/Redacted"
import { isIdempotent, isRetriable, retryDelay } from "../retryPolicy.ts"
import { type FailedRequest, reasonOf, ServiceUnreachable, TIMEOUT } from "../ServiceUnreachable.ts"
import { type AbortSource, linkSignals, sleep } from "./wait.ts"

/** The service that a client sends to. */
export interface Connection {
  /** The base URL, without a trailing slash. */
  readonly url: string
  readonly key: Redacted.Redacted
  readonly retries: number
  /** Aborts when the client is closed. */
  readonly closed: AbortSource
}

/** A request of an operation. */
export interface OutgoingRequest extends FailedRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Timeout of one attempt in milliseconds, up to the response headers. */
  readonly timeout: number
}

/** How long the rest of a discarded response is read, so that its connection is free for the next attempt. */
const DISCARD_MILLIS = 1_000

/**
 * Sends a request and returns the last response. Rejects with {@link ServiceUnreachable}, or with the signal's reason. After this client's
 * own timeout only a `GET` is retried: the service may still be processing any other request.
 */
export const send = async (
  connection: Connection,
  request: OutgoingRequest,
  signal: AbortSignal
): Promise<Response> => {
  const idempotent = isIdempotent(request.method, request.headers["idempotency-key"])
  for (let attempt = 0; ; attempt++) {
    const outcome = await sendOnce(connection, request, signal)
    const canRetry =
      attempt < connection.retries &&
      (outcome instanceof ServiceUnreachable
        ? idempotent && (outcome.reason !== TIMEOUT || request.method === "GET")
        : isRetriable({ status: outcome.status, contentType: header(outcome, "content-type") }, idempotent))
    if (canRetry) {
      const retryAfter = outcome instanceof ServiceUnreachable ? undefined : header(outcome, "retry-after")
      const delay = retryDelay(attempt, retryAfter, Date.now(), Math.random())
      if (delay !== undefined) {
        if (!(outcome instanceof ServiceUnreachable)) await discard(outcome, signal)
        await sleep(delay, signal)
        continue
      }
    }
    if (outcome instanceof ServiceUnreachable) throw outcome
    return outcome
  }
}

/** Returns a header of a response; undefined if it has none. */
export const header = ({ headers }: Response, name: string): string | undefined =>
  headers.get(name) ?? undefined

/** One attempt: a response, or why there is none. */
const sendOnce = async (
  { key }: Connection,
  request: OutgoingRequest,
  signal: AbortSignal
): Promise<Response | ServiceUnreachable> => {
  const attempt = linkSignals(signal)
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    attempt.abort(undefined)
  }, request.timeout)
  try {
    return await fetch(request.url, {
      method: request.method,
      headers: { ...request.headers, authorization: `Bearer ${Redacted.value(key)}` },
      ...(request.body === undefined ? {} : { body: request.body }),
      signal: attempt.signal,
      // The key must not reach another host, and browser cookies must not reach the service.
      redirect: "manual",
      credentials: "omit",
      cache: "no-store"
    })
  } catch (failure) {
    signal.throwIfAborted()
    return isLate
      ? new ServiceUnreachable(request, TIMEOUT, `no response within ${request.timeout / 1_000} s`)
      : new ServiceUnreachable(request, reasonOf(failure))
  } finally {
    clearTimeout(timer)
  }
}

const discard = async (response: Response, signal: AbortSignal): Promise<void> => {
  const reader = response.body?.getReader()
  if (reader === undefined) return
  // Canceling ends a pending read.
  const timer = setTimeout(() => void reader.cancel().catch(() => undefined), DISCARD_MILLIS)
  try {
    while (!(await reader.read()).done);
  } catch {
    signal.throwIfAborted()
  } finally {
    clearTimeout(timer)
  }
}
