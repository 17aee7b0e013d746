import type { Duration } from "./connect/Duration.ts"
import type { Log } from "./connect/Log.ts"

/** The service and the API key of a client, and how it calls. */
export interface ClientOptions {
  /**
   * The base URL of the service: `https://approve.example`, with a path if the service is served under one. Default: the variable
   * `COUNTERSIGN_URL`.
   */
  readonly url?: string | URL
  /** An API key. It is sent to this service only: redirects are not followed. Default: the variable `COUNTERSIGN_KEY`. */
  readonly key?: string
  /** Maximum retries of an idempotent request. Default 3; 0 disables retries. */
  readonly retries?: number
  /** Timeout of one attempt, up to the response headers. Default 30 seconds; 150 seconds for `tasks.run`, which waits for its model. */
  readonly timeout?: Duration
  /** Called after every attempt of a request, with nothing secret: for a log or metrics. */
  readonly log?: Log
}

/** Reads a variable of the environment. Browsers have none. */
const variable = (name: string): string | undefined => {
  const { process }: { readonly process?: { readonly env?: Readonly<Record<string, string | undefined>> } } =
    globalThis
  const value = process?.env?.[name]
  return value === "" ? undefined : value
}

/** Returns the base URL without a trailing slash; throws if it is invalid. */
export const baseUrl = (given: string | URL | undefined): string => {
  const text = given ?? variable("COUNTERSIGN_URL")
  if (text === undefined) throw new TypeError("The client has no url: give one, or set COUNTERSIGN_URL")
  const url = parseUrl(text)
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
 * Returns the key. Throws if it cannot be sent in a header, such as a key with a line break from a file: `fetch` would fail with an error that
 * quotes it.
 */
export const apiKey = (given: string | undefined): string => {
  const key = given ?? variable("COUNTERSIGN_KEY")
  if (key === undefined || key === "")
    throw new TypeError("The client has no key: give one, or set COUNTERSIGN_KEY")
  if (!/^[\x21-\x7e]*$/.test(key)) {
    throw new TypeError("The client's key must not contain spaces, line breaks or other control characters")
  }
  return key
}
