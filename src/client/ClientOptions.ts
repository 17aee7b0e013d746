import type { Duration } from "effect"
import * as Redacted from "effect/Redacted"

/** Timeouts and retries of a client. */
export interface RetryOptions {
  /** Maximum retries of an idempotent request. Default 3; 0 disables retries. */
  readonly retries?: number
  /** Timeout of one attempt, up to the response headers. Default 30 seconds; 150 seconds for `tasks.run`, which waits for its model. */
  readonly timeout?: Duration.Input
}

/** The service and the API key of a client. */
export interface ClientOptions extends RetryOptions {
  /** The base URL of the service: `https://approve.example`, with a path if the service is served under one. */
  readonly url: string | URL
  /** An API key. It is sent to this service only: redirects are not followed. */
  readonly key: string | Redacted.Redacted
}

/** Returns the base URL without a trailing slash; throws if it is invalid. */
export const baseUrl = (given: string | URL): string => {
  const url = parseUrl(given)
  if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw new TypeError("The client's url must be an http or https URL, such as http://127.0.0.1:8080")
  }
  if (url.username + url.password + url.search + url.hash !== "") {
    throw new TypeError("The client's url must not have credentials, a query or a fragment")
  }
  return url.href.replace(/\/+$/, "")
}

/** `URL.parse`, which Node lacks before 22.1 and Safari before 18. */
const parseUrl = (given: string | URL): URL | undefined => {
  try {
    return new URL(given)
  } catch {
    return undefined
  }
}

/**
 * Returns the key, redacted. Throws if it cannot be sent in a header, such as a key with a line break from a file: `fetch` would fail with
 * an error that quotes it.
 */
export const redactedKey = (given: string | Redacted.Redacted): Redacted.Redacted => {
  const key = Redacted.isRedacted(given) ? given : Redacted.make(given, { label: "ApiKey" })
  if (!/^[\x21-\x7e]*$/.test(Redacted.value(key))) {
    throw new TypeError("The client's key must not contain spaces, line breaks or other control characters")
  }
  return key
}
