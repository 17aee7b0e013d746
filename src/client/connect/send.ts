/** Sends requests with timeouts and retries. */
import { retryDelay } from "../retryPolicy.ts"
import { type FailedRequest, reasonOf, ServiceUnreachable, TIMEOUT } from "../ServiceUnreachable.ts"
import type { Log } from "./Log.ts"
import { notify } from "./notify.ts"
import { type Closing, linkSignals, sleep } from "./wait.ts"

/** The service that a client sends to. */
export interface Connection {
  /** The base URL, without a trailing slash. */
  readonly url: string
  readonly key: string
  readonly log: Log | undefined
  readonly closing: Closing
}

/** A request of an operation. */
export interface OutgoingRequest extends FailedRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Timeout of one attempt in milliseconds, up to the response headers, and as much again for the body of a response that is no stream. */
  readonly timeout: number
  /** Maximum retries. */
  readonly retries: number
}

/** How long the rest of a discarded response is read, so that its connection is free for the next attempt. */
const DISCARD_MILLIS = 1_000

/** Sends a request and returns the last response. Rejects with {@link ServiceUnreachable}, or with the signal's reason. */
export const send = async (
  connection: Connection,
  request: OutgoingRequest,
  signal: AbortSignal
): Promise<Response> => {
  const { method, retries } = request
  const retriable = { method, retries, idempotencyKey: request.headers["idempotency-key"] }
  for (let attempt = 0; ; attempt++) {
    const sentAt = performance.now()
    const outcome = await sendOnce(connection, request, signal)
    const isResponse = !(outcome instanceof ServiceUnreachable)
    const ended = isResponse
      ? {
          status: outcome.status,
          contentType: header(outcome, "content-type"),
          retryAfter: header(outcome, "retry-after")
        }
      : outcome
    const delay = retryDelay(retriable, attempt, ended, Date.now(), Math.random())
    notify("log", connection.log, {
      operation: request.operation,
      method,
      path: request.url.pathname,
      attempt: attempt + 1,
      duration_ms: Math.round(performance.now() - sentAt),
      status: isResponse ? outcome.status : undefined,
      reason: isResponse ? undefined : outcome.reason,
      request_id: isResponse ? header(outcome, "x-request-id") : undefined,
      retry_in_ms: delay === undefined ? undefined : Math.round(delay)
    })
    if (delay === undefined) {
      if (isResponse) return outcome
      throw outcome
    }
    if (isResponse) await discard(outcome, signal)
    await sleep(delay, signal)
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
      headers: { ...request.headers, authorization: `Bearer ${key}` },
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
