import { Context, Effect, Stream, Tracer } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { HttpApiClient, type HttpApiEndpoint } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { Idempotent, RepeatableByKey } from "../api/Middleware.ts"
import type { EffectCalls } from "./Call.ts"
import { baseUrl, type ClientOptions } from "./ClientOptions.ts"
import { hideFailedRequest, hideRequest, type RequestError } from "./hideRequest.ts"
import { type RetryOptions, withRetries } from "./retry.ts"
import { RUN_TIMEOUT } from "./retryPolicy.ts"
import type { OpenStream } from "./stream.ts"

/** The service that is called, and how often and how long. */
export interface CallsOptions extends Pick<ClientOptions, "url">, RetryOptions {}

/** The operations of the contract by the context's HTTP client and authentication, and `open`, which starts a session's event stream. */
export const makeCalls = Effect.fnUntraced(function* (options: CallsOptions) {
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
  return { calls, open }
})

/** Without a tracing backend, spans are not exported: a server must not link its own to them. */
const withoutLostParent = <A, E, R>(send: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.tracer, (tracer) =>
    tracer === Tracer.nativeTracer
      ? Effect.provideService(send, HttpClient.TracerPropagationEnabled, false)
      : send
  )

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
