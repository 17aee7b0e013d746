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

/** Which service a client speaks to, and as whom. */
export interface ClientOptions extends RetryOptions {
  /** Where the service is: `https://approve.example`, with a path if it lies under one. */
  readonly url: string | URL
  /** An API key. It is sent to that service alone: no redirect is followed. */
  readonly key: string | Redacted.Redacted
}

/** The operations of the contract, and what is made of them. */
export interface ClientCalls extends EffectCalls {
  /** A session's events as they come: `stream(session_id, { after })`. */
  readonly stream: SessionFollower["stream"]
  /** Asks for a step and waits until it is decided: `govern(session_id, step)`. */
  readonly govern: Govern
}

/**
 * The typed client: every operation of the contract as an effect, failing with the problems of the operation.
 *
 * ```ts
 * const program = Effect.gen(function* () {
 *   const { sessions } = yield* Client
 *   return yield* sessions.create({ payload: { metadata: { ticket: "4711" } } })
 * })
 * program.pipe(Effect.provide(Client.layer({ url: "http://127.0.0.1:8080", key })))
 * ```
 *
 * What may be sent again is, a few times, when the service is busy or out of reach: what only reads, and what creates under an
 * `Idempotency-Key`. A call that names none has one of its own, the same for all its attempts. A run of a task has not: its service may
 * have paid a model when its connection breaks, and the next attempt would pay again. Give one where that is better than no answer.
 */
export class Client extends Context.Service<Client, ClientCalls>()("countersign/client/Client") {
  /** A client over `fetch`: in Node, in browsers and elsewhere. A URL that is none of http is a defect. */
  static readonly layer = (options: ClientOptions): Layer.Layer<Client> =>
    Client.layerHttp(options).pipe(Layer.provide(FetchHttpClient.layer), Layer.provide(fetchDefaults))

  /** A client over an HTTP client of one's own. */
  static readonly layerHttp = (options: ClientOptions): Layer.Layer<Client, never, HttpClient.HttpClient> =>
    Layer.effect(Client, make(options)).pipe(Layer.provide(authenticated(options.key)))

  /** A client over an HTTP client that says by itself who asks, as a browser does by a cookie: it has no key. */
  static readonly layerKeyless = (
    options: Omit<ClientOptions, "key">
  ): Layer.Layer<Client, never, HttpClient.HttpClient> =>
    Layer.effect(Client, make(options)).pipe(Layer.provide(unauthenticated))
}

/** A model may take two minutes; the rest is for the way and the store. */
const RUN_TIMEOUT = "150 seconds"

const make = Effect.fnUntraced(function* (options: Omit<ClientOptions, "key">) {
  const url = yield* Effect.sync(() => baseUrl(options.url))
  const http = yield* HttpClient.HttpClient
  const reaching = (waits: RetryOptions) =>
    http.pipe(withRetries(waits), HttpClient.mapRequest(HttpClientRequest.prependUrl(url)))
  const derived = yield* HttpApiClient.makeWith(Api, { httpClient: reaching(options) })
  const run = yield* HttpApiClient.endpoint(Api, {
    httpClient: reaching({ ...options, timeout: options.timeout ?? RUN_TIMEOUT }),
    group: "tasks",
    endpoint: "run"
  })
  const calls = lenient({ ...derived, tasks: { ...derived.tasks, run } })
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

/** The key must reach no other host, and no cookie of a browser the service. */
const fetchDefaults = Layer.succeed(FetchHttpClient.RequestInit, {
  redirect: "error",
  credentials: "omit",
  cache: "no-store"
})

const authenticated = (key: string | Redacted.Redacted) => {
  const hidden = Redacted.isRedacted(key) ? key : Redacted.make(key, { label: "ApiKey" })
  return HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
    next(HttpClientRequest.bearerToken(request, hidden))
  )
}

const unauthenticated = HttpApiMiddleware.layerClient(Authentication, ({ next, request }) => next(request))

/** The service's address without a slash at its end; throws where it is none. */
const baseUrl = (given: string | URL): string => {
  const url = parsed(given)
  if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw new TypeError("The client's url must be an http or https URL, such as http://127.0.0.1:8080")
  }
  if (url.username + url.password + url.search + url.hash !== "") {
    throw new TypeError("The client's url must have no user, query or fragment")
  }
  return url.href.replace(/\/+$/, "")
}

/** `URL.parse`, which Node has from 22.1 on and Safari from 18. */
const parsed = (given: string | URL): URL | undefined => {
  try {
    return new URL(given)
  } catch {
    return undefined
  }
}

/** The derived client asks for every part of a request, empty ones too; this one fills those in, and the keys of what creates. */
const lenient = (derived: object): EffectCalls =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same groups and methods as the derived client's, whose types `EffectCalls` is made from
  mapCalls(derived, (call, { middlewares }) => {
    const headers = middlewares.has(Idempotent) ? newKey : none
    return (input?: Input) =>
      Effect.suspend(() =>
        effectOf(call({ ...empty, ...input, headers: { ...headers(), ...input?.headers } }))
      )
  }) as EffectCalls

type Input = { readonly headers?: object }

const empty = { query: {}, payload: {} }

/** The key of one call, over all its attempts. Node 18 has no random bytes without an import: calls there are sent once. */
const newKey = () => ("crypto" in globalThis ? { "idempotency-key": SecureRandom.uuidV4Unsafe() } : {})

const none = () => ({})

/** What a method of the derived client answers with. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every one of them answers with an effect that needs nothing
export const effectOf = (answer: unknown) => answer as Effect.Effect<unknown, unknown>

type AnyCall = (input?: object, ...rest: ReadonlyArray<never>) => unknown

/** The same groups with each method replaced, by what it was and by its operation. */
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
