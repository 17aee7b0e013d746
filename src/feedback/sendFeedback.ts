import { FeedbackError } from "./FeedbackError.ts"

/** The input of a page to send feedback: the response of `createFeedbackToken`, or these two members of it. */
export interface FeedbackGrant {
  readonly token: string
  readonly url: string
}

/** Feedback of an end user: `score` or `score_value` is required. */
export type EndUserFeedback = {
  /** A category that the token was created with. */
  readonly score_label?: string | null
  /** At most 4,000 characters. */
  readonly comment?: string | null
} & (
  | {
      /** 1: right; 0: neutral; -1: wrong. */
      readonly score: 1 | 0 | -1
      readonly score_value?: number | null
    }
  | {
      readonly score?: 1 | 0 | -1
      /** From -1 to 1, for ratings finer than `score`. */
      readonly score_value: number
    }
)

export interface SendOptions {
  /** Cancels sending. */
  readonly signal?: AbortSignal
}

/** Attempts in all. The service stores the newest feedback of a token once, so that repeating a request is safe. */
const MAX_ATTEMPTS = 3

/** The pause before the second attempt; each further one is twice as long. */
const FIRST_PAUSE_MILLIS = 500

const ATTEMPT_MILLIS = 10_000

/** Statuses after which the same request may succeed. */
const transient: ReadonlySet<number> = new Set([408, 429, 502, 503, 504])

/**
 * Sends feedback, and returns when it is stored. Tries again if the network or the service is briefly unavailable.
 * @throws {FeedbackError} The feedback was not stored. If `signal` aborted, its reason is thrown instead.
 */
export const sendFeedback = async (
  grant: FeedbackGrant,
  feedback: EndUserFeedback,
  { signal }: SendOptions = {}
): Promise<void> => {
  for (let attempt = 1; ; attempt++) {
    const failure = await post(grant, feedback, signal)
    if (failure === undefined) return
    const isTransient = failure.status === undefined || transient.has(failure.status)
    if (!isTransient || attempt === MAX_ATTEMPTS) throw failure
    // It may have aborted while the body was read.
    signal?.throwIfAborted()
    await pause(FIRST_PAUSE_MILLIS * 2 ** (attempt - 1) * (0.5 + Math.random()), signal)
  }
}

/** Sends one request; returns why the feedback was not stored. */
const post = async (
  { token, url }: FeedbackGrant,
  feedback: EndUserFeedback,
  signal: AbortSignal | undefined
): Promise<FeedbackError | undefined> => {
  const attempt = new AbortController()
  const cancel = () => attempt.abort()
  const timer = setTimeout(cancel, ATTEMPT_MILLIS)
  signal?.addEventListener("abort", cancel)
  try {
    signal?.throwIfAborted()
    const response = await fetch(url, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(feedback),
      signal: attempt.signal,
      // Cookies and the page's address are none of the service's business.
      credentials: "omit",
      referrerPolicy: "no-referrer",
      redirect: "error",
      cache: "no-store",
      // Feedback that is sent while the page closes arrives.
      keepalive: true
    })
    return response.ok ? undefined : await refusalOf(response)
  } catch (cause) {
    signal?.throwIfAborted()
    return new FeedbackError(
      "UNREACHABLE",
      "The feedback could not be sent: the network is down, or this page may not send it.",
      { cause }
    )
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener("abort", cancel)
  }
}

const refusalOf = async (response: Response): Promise<FeedbackError> => {
  const problem: unknown = await response.json().catch(() => undefined)
  const { status } = response
  return new FeedbackError(
    textIn(problem, "code") ?? "UNEXPECTED_RESPONSE",
    textIn(problem, "detail") ?? `The service responded with status ${status}.`,
    { status }
  )
}

const textIn = (value: unknown, name: string): string | undefined => {
  if (typeof value !== "object" || value === null) return undefined
  const member: unknown = Reflect.get(value, name)
  return typeof member === "string" ? member : undefined
}

const pause = (millis: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const cancel = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", cancel)
      resolve()
    }, millis)
    signal?.addEventListener("abort", cancel, { once: true })
  })
