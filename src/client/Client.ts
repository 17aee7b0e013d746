import { Context, Effect, Layer, Redacted, Stream, Tracer } from "effect"
import { SecureRandom } from "effect/crypto"
import { FetchHttpClient, HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { HttpApiClient, type HttpApiEndpoint, HttpApiMiddleware } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { Authentication } from "../api/Authorization.ts"
import { Idempotent, RepeatableByKey } from "../api/Middleware.ts"
import type { ApprovalSnapshot, SessionEvent } from "../api/SessionStream.ts"
import type { EffectCalls } from "./Call.ts"
import { apiKey, baseUrl, type ClientOptions } from "./ClientOptions.ts"
import { changeOf, makeApprovalWaits } from "./connect/approvalWaits.ts"
import { makeFollower } from "./connect/sessionEvents.ts"
import { type Execute, type Govern, makeExecute, makeGovern } from "./govern.ts"
import { hideFailedRequest, hideRequest, type RequestError } from "./hideRequest.ts"
import { type RetryOptions, withRetries } from "./retry.ts"
import { RUN_TIMEOUT } from "./retryPolicy.ts"
import { makeStream, type OpenStream, type StreamEvents } from "./stream.ts"

/** The service and the API key of a client. Both default to the variables `COUNTERSIGN_URL` and `COUNTERSIGN_KEY`. */
export interface ClientLayerOptions extends Pick<ClientOptions, "url">, RetryOptions {
  /** An API key. It is sent to this service only: redirects are not followed. */
  readonly key?: string | Redacted.Redacted
}

/** The operations of the contract, and the helpers built on them. */
export interface ClientCalls extends EffectCalls {
  /** Streams a session's events: `stream(session_id, { after })`. */
  readonly stream: StreamEvents
  /** Requests a step and waits for its decision: `govern(session_id, step)`. */
  readonly govern: Govern
  /** Requests a step, executes it if it is allowed, once, and reports the outcome: `execute(session_id, step, tool)`. */
  readonly execute: Execute
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
 * Idempotent requests are retried a few times if the service is busy or unreachable: reads, and creations, steps and claims with an `Idempotency-Key`. Such
 * a call without a key gets an automatic one, the same for all its attempts. Runs of a task do not, because a retry could bill the
 * model twice: the model may have been paid when the connection broke. Pass a key to allow retries nevertheless.
 */
export class Client extends Context.Service<Client, ClientCalls>()("countersign/client/Client") {
  /** A client that uses `fetch`: in Node, browsers and other runtimes. A URL that is not http or https is a defect. */
  static readonly layer = (options: ClientLayerOptions = {}): Layer.Layer<Client> =>
    Client.layerHttp(options).pipe(Layer.provide(FetchHttpClient.layer), Layer.provide(fetchDefaults))

  /** A client that uses the provided `HttpClient`. */
  static readonly layerHttp = (
    options: ClientLayerOptions = {}
  ): Layer.Layer<Client, never, HttpClient.HttpClient> =>
    Layer.effect(Client, make(options)).pipe(Layer.provide(authenticated(options.key)))

  /** A client without an API key, for an `HttpClient` that authenticates by itself, as a browser does with a cookie. */
  static readonly layerKeyless = (
    options: Omit<ClientLayerOptions, "key">
  ): Layer.Layer<Client, never, HttpClient.HttpClient> =>
    Layer.effect(Client, make(options)).pipe(Layer.provide(unauthenticated))
}

const make = Effect.fnUntraced(function* (options: Omit<ClientLayerOptions, "key">) {
  const url = yield* Effect.sync(() => baseUrl(options.url))
  const http = yield* HttpClient.HttpClient
  const connected = (waits: RetryOptions) =>
    http.pipe(
      withRetries(waits),
      HttpClient.mapRequest(HttpClientRequest.prependUrl(url)),
      HttpClient.transform(withoutLostParent)
    )
  const derived = yield* HttpApiClient.makeWith(Api, { httpClient: connected(options) })
  const run = yield* HttpApiClient.endpoint(Api, {
    httpClient: connected({ ...options, timeout: options.timeout ?? RUN_TIMEOUT }),
    group: "tasks",
    endpoint: "run"
  })
  const calls = withDefaults({ ...derived, tasks: { ...derived.tasks, run } })
  const open: OpenStream = (id, after) =>
    derived.sessions
      .stream({
        params: { id },
        headers: {},
        query: after === undefined ? {} : { after },
        responseMode: "response-only"
      })
      .pipe(Effect.mapError(hideFailedRequest("stream")))
  const follower = makeFollower<SessionEvent>()
  const waits = makeApprovalWaits(follower, changeOf<ApprovalSnapshot>)
  const govern = makeGovern({ ...calls.sessions, ...calls.approvals }, waits, open)
  return {
    ...calls,
    stream: makeStream(follower, open),
    govern,
    execute: makeExecute(govern, calls.sessions)
  }
})

/** Without a tracing backend, spans are not exported: a server must not link its own to them. */
const withoutLostParent = <A, E, R>(send: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.tracer, (tracer) =>
    tracer === Tracer.nativeTracer
      ? Effect.provideService(send, HttpClient.TracerPropagationEnabled, false)
      : send
  )

/** The key must not reach another host, and browser cookies must not reach the service. */
const fetchDefaults = Layer.succeed(FetchHttpClient.RequestInit, {
  redirect: "manual",
  credentials: "omit",
  cache: "no-store"
})

/** Returns a key, redacted. Throws if it cannot be sent in a header. */
export const redactedKey = (given: string | Redacted.Redacted | undefined): Redacted.Redacted =>
  Redacted.make(apiKey(Redacted.isRedacted(given) ? Redacted.value(given) : given), { label: "ApiKey" })

const authenticated = (key: string | Redacted.Redacted | undefined) =>
  Layer.unwrap(
    Effect.sync(() => {
      const redacted = redactedKey(key)
      return HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
        next(HttpClientRequest.bearerToken(request, redacted))
      )
    })
  )

const unauthenticated = HttpApiMiddleware.layerClient(Authentication, ({ next, request }) => next(request))

/**
 * Fills in omitted parts of the input, which the derived client requires even if empty, and the idempotency keys of
 * creating calls. Replaces the errors that hold a request.
 */
const withDefaults = (derived: object): EffectCalls =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same groups and methods as the derived client's, whose types `EffectCalls` is made from
  mapCalls(derived, (call, { annotations, middlewares }, group, name) => {
    const operation = `${group}.${name}`
    const isRepeatable = middlewares.has(Idempotent) || Context.get(annotations, RepeatableByKey)
    const headers = isRepeatable ? newIdempotencyKey : noHeaders
    const decode = decoderOf(group, name)
    return (input?: Input) =>
      Effect.suspend(() =>
        asResponse(
          call({
            query: {},
            ...input,
            payload: input?.payload ?? {},
            headers: { ...headers(), ...input?.headers },
            responseMode: "response-only"
          })
        )
      ).pipe(
        Effect.mapError(hideFailedRequest(operation)),
        Effect.flatMap((response) => {
          const hide = hideRequest(operation, response)
          return Effect.map(Effect.mapError(decode(response), hide), (result) =>
            Stream.isStream(result) ? Stream.mapError(result, hide) : result
          )
        })
      )
  }) as EffectCalls

/** The library decodes the responses of one operation. */
const decoderOf = (
  group: string,
  endpoint: string
): ((response: HttpClientResponse.HttpClientResponse) => Effect.Effect<unknown, unknown>) =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the names come from the contract; the types of one operation stand for all
  HttpApiClient.decodeResponse(Api, { group, endpoint } as { group: "sessions"; endpoint: "get" })

type Input = { readonly headers?: object; readonly payload?: unknown }

/**
 * Generates the idempotency key of one call, shared by its attempts. Node 18 has no random bytes without an import: calls there are not
 * retried.
 */
const newIdempotencyKey = () =>
  "crypto" in globalThis ? { "idempotency-key": SecureRandom.uuidV4Unsafe() } : {}

const noHeaders = () => ({})

/** Types the result of a method of the derived client in the mode `response-only`. */
const asResponse = (answer: unknown) =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every one of them answers with such an effect, which needs nothing
  answer as Effect.Effect<HttpClientResponse.HttpClientResponse, RequestError>

type AnyCall = (input?: object) => unknown

/** Replaces each method of the groups, given the method, its endpoint, and the names of its group and itself. */
const mapCalls = (
  groups: object,
  change: (
    call: (input: object) => unknown,
    endpoint: HttpApiEndpoint.Top,
    group: string,
    name: string
  ) => AnyCall
): Record<string, Record<string, AnyCall>> =>
  Object.fromEntries(
    Object.entries(contract).map(([group, { endpoints }]) => {
      const calls: Readonly<Record<string, (input: object) => unknown>> = Reflect.get(groups, group)
      return [
        group,
        Object.fromEntries(
          Object.entries(endpoints).flatMap(([name, endpoint]) => {
            const call = calls[name]
            return call === undefined ? [] : [[name, change(call, endpoint, group, name)]]
          })
        )
      ]
    })
  )

const contract: Readonly<
  Record<string, { readonly endpoints: Readonly<Record<string, HttpApiEndpoint.Top>> }>
> = Api.groups
