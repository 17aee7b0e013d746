import { Context, Effect, Layer, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient, type HttpApiEndpoint, HttpApiMiddleware } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { Authentication } from "../api/Authorization.ts"
import { Idempotent } from "../api/Middleware.ts"
import type { EffectCalls } from "./Call.ts"
import { type Govern, makeGovern } from "./govern.ts"
import { type RetryOptions, withRetries } from "./retry.ts"
import { makeFollower, type SessionFollower } from "./stream.ts"

/** The service and the API key of a client. */
export interface ClientOptions extends RetryOptions {
  /** The base URL of the service: `https://approve.example`, with a path if the service is served under one. */
  readonly url: string | URL
  /** An API key. It is sent to this service only: redirects are not followed. */
  readonly key: string | Redacted.Redacted
}

/** The operations of the contract, and the helpers built on them. */
export interface ClientCalls extends EffectCalls {
  /** Streams a session's events: `stream(session_id, { after })`. */
  readonly stream: SessionFollower["stream"]
  /** Requests a step and waits for its decision: `govern(session_id, step)`. */
  readonly govern: Govern
}

/**
 * The typed client: every operation of the contract as an effect that fails with the problems of the operation.
 *
 * ```ts
 * const program = Effect.gen(function* () {
 *   const { sessions } = yield* Client
 *   return yield* sessions.create({ payload: { metadata: { ticket: "4711" } } })
 * })
 * program.pipe(Effect.provide(Client.layer({ url: "http://127.0.0.1:8080", key })))
 * ```
 *
 * Idempotent requests are retried a few times if the service is busy or unreachable: reads, and creations with an `Idempotency-Key`. A
 * creating call without a key gets an automatic one, the same for all its attempts. Runs of a task do not, because a retry could bill the
 * model twice: the model may have been paid when the connection broke. Pass a key if that is better than no answer.
 */
export class Client extends Context.Service<Client, ClientCalls>()("countersign/client/Client") {
  /** A client that uses `fetch`: in Node, browsers and other runtimes. A URL that is not http or https is a defect. */
  static readonly layer = (options: ClientOptions): Layer.Layer<Client> =>
    Client.layerHttp(options).pipe(Layer.provide(FetchHttpClient.layer), Layer.provide(fetchDefaults))

  /** A client that uses the provided `HttpClient`. */
  static readonly layerHttp = (options: ClientOptions): Layer.Layer<Client, never, HttpClient.HttpClient> =>
    Layer.effect(Client, make(options)).pipe(Layer.provide(authenticated(options.key)))

  /** A client without an API key, for an `HttpClient` that authenticates by itself, as a browser does with a cookie. */
  static readonly layerKeyless = (
    options: Omit<ClientOptions, "key">
  ): Layer.Layer<Client, never, HttpClient.HttpClient> =>
    Layer.effect(Client, make(options)).pipe(Layer.provide(unauthenticated))
}

/** A model may take two minutes; the rest covers the network and the database. */
const RUN_TIMEOUT = "150 seconds"

const make = Effect.fnUntraced(function* (options: Omit<ClientOptions, "key">) {
  const url = yield* Effect.sync(() => baseUrl(options.url))
  const http = yield* HttpClient.HttpClient
  const connected = (waits: RetryOptions) =>
    http.pipe(withRetries(waits), HttpClient.mapRequest(HttpClientRequest.prependUrl(url)))
  const derived = yield* HttpApiClient.makeWith(Api, { httpClient: connected(options) })
  const run = yield* HttpApiClient.endpoint(Api, {
    httpClient: connected({ ...options, timeout: options.timeout ?? RUN_TIMEOUT }),
    group: "tasks",
    endpoint: "run"
  })
  const calls = withDefaults({ ...derived, tasks: { ...derived.tasks, run } })
  const follower = makeFollower((id, after) =>
    derived.sessions.stream({
      params: { id },
      headers: {},
      query: after === undefined ? {} : { after },
      responseMode: "response-only"
    })
  )
  return { ...calls, stream: follower.stream, govern: makeGovern(calls.sessions.step, follower) }
})

/** The key must not reach another host, and browser cookies must not reach the service. */
const fetchDefaults = Layer.succeed(FetchHttpClient.RequestInit, {
  redirect: "error",
  credentials: "omit",
  cache: "no-store"
})

const authenticated = (key: string | Redacted.Redacted) => {
  const redacted = Redacted.isRedacted(key) ? key : Redacted.make(key, { label: "ApiKey" })
  return HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
    next(HttpClientRequest.bearerToken(request, redacted))
  )
}

const unauthenticated = HttpApiMiddleware.layerClient(Authentication, ({ next, request }) => next(request))

/** Returns the base URL without a trailing slash; throws if it is invalid. */
const baseUrl = (given: string | URL): string => {
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

/** Fills in omitted parts of the input, which the derived client requires even if empty, and the idempotency keys of creating calls. */
const withDefaults = (derived: object): EffectCalls =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same groups and methods as the derived client's, whose types `EffectCalls` is made from
  mapCalls(derived, (call, { middlewares }) => {
    const headers = middlewares.has(Idempotent) ? newIdempotencyKey : noHeaders
    return (input?: Input) =>
      Effect.suspend(() =>
        asEffect(call({ ...empty, ...input, headers: { ...headers(), ...input?.headers } }))
      )
  }) as EffectCalls

type Input = { readonly headers?: object }

const empty = { query: {}, payload: {} }

/**
 * Generates the idempotency key of one call, shared by its attempts. Node 18 has no random bytes without an import: calls there are not
 * retried.
 */
const newIdempotencyKey = () =>
  "crypto" in globalThis ? { "idempotency-key": SecureRandom.uuidV4Unsafe() } : {}

const noHeaders = () => ({})

/** Types the result of a method of the derived client. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every one of them answers with an effect that needs nothing
export const asEffect = (answer: unknown) => answer as Effect.Effect<unknown, unknown>

type AnyCall = (input?: object, ...rest: ReadonlyArray<never>) => unknown

/** Replaces each method of the groups, given the method and its endpoint. */
export const mapCalls = (
  groups: object,
  change: (call: (input: object) => unknown, endpoint: HttpApiEndpoint.Top) => AnyCall
): Record<string, Record<string, AnyCall>> =>
  Object.fromEntries(
    Object.entries(contract).map(([group, { endpoints }]) => {
      const calls: Readonly<Record<string, (input: object) => unknown>> = Reflect.get(groups, group)
      return [
        group,
        Object.fromEntries(
          Object.entries(endpoints).flatMap(([name, endpoint]) => {
            const call = calls[name]
            return call === undefined ? [] : [[name, change(call, endpoint)]]
          })
        )
      ]
    })
  )

const contract: Readonly<
  Record<string, { readonly endpoints: Readonly<Record<string, HttpApiEndpoint.Top>> }>
> = Api.groups
