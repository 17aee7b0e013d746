import type { Brand, DateTime, Effect, Redacted, Schema, Stream } from "effect"
import type { HttpClientError } from "effect/http"
import type {
  HttpApi,
  HttpApiClient,
  HttpApiEndpoint,
  HttpApiGroup,
  HttpApiMiddleware
} from "effect/http-api"
import type { Api } from "../api/Api.ts"

/** One part of a request. A part without required members may be omitted. */
type Part<Name extends string, Value> = [Value] extends [never]
  ? unknown
  : {} extends Value
    ? { readonly [K in Name]?: Value }
    : { readonly [K in Name]: Value }

/** The input of an operation: its `params`, `query`, `headers` and `payload`. */
export type CallInput<Endpoint extends HttpApiEndpoint.ConstraintRequest> = Part<
  "params",
  Endpoint["~Params"]["Type"]
> &
  Part<"query", Endpoint["~Query"]["Type"]> &
  Part<"headers", Endpoint["~Headers"]["Type"]> &
  Part<"payload", Endpoint["~Payload"]["Type"]>

/** The result of an operation. */
export type CallResult<Endpoint extends HttpApiEndpoint.ConstraintRequest> = HttpApiClient.SuccessType<
  Endpoint["~Success"]
>

/**
 * The errors of an operation: its problems, `HttpClientError` if no response arrived, or `SchemaError` for a response outside the contract,
 * as from another service at that address.
 */
export type CallError<Endpoint extends HttpApiEndpoint.ConstraintRequest> =
  | Endpoint["~Error"]["Type"]
  | HttpApiMiddleware.Error<Endpoint["~Middleware"]>
  | HttpClientError.HttpClientError
  | Schema.SchemaError

type Groups = typeof Api extends HttpApi.HttpApi<infer _Id, infer G> ? G : never

type Endpoints<Id> = Extract<Groups, { readonly identifier: Id }>["endpoints"]

/** One operation of the contract, as a type. */
export type Operation<Id extends HttpApiGroup.Identifier<Groups>, Name extends keyof Endpoints<Id>> = Extract<
  Endpoints<Id>[Name],
  HttpApiEndpoint.ConstraintRequest
>

/** The operations of a group that return a response. `stream` does not: see `Client.stream`. */
type Called<Id> = Exclude<keyof Endpoints<Id>, "stream">

type Arguments<I, Options extends ReadonlyArray<unknown>> = {} extends I
  ? [input?: I, ...Options]
  : [input: I, ...Options]

/** Every operation of the contract as an effect: `calls.approvals.decide({ params: { id }, payload: { decision } })`. */
export type EffectCalls = {
  readonly [Id in HttpApiGroup.Identifier<Groups>]: {
    readonly [Name in Called<Id>]: Endpoints<Id>[Name] extends infer Endpoint extends
      HttpApiEndpoint.ConstraintRequest
      ? (
          ...args: Arguments<CallInput<Endpoint>, []>
        ) => Effect.Effect<CallResult<Endpoint>, CallError<Endpoint>>
      : never
  }
}

/** Options of one promise call. */
export interface CallOptions {
  /** Aborts the call. The service may have processed the request already. */
  readonly signal?: AbortSignal
}

/**
 * Input without Effect types: branded strings such as ids are plain strings, times are `Date` or RFC 3339 strings. The contract's schemas
 * check the input before anything is sent.
 */
export type PlainInput<A> = A extends string & Brand.Brand<string>
  ? string
  : A extends DateTime.DateTime
    ? Date | string
    : A extends Redacted.Redacted
      ? A
      : { readonly [K in keyof A]: PlainInput<A[K]> }

/** Output without Effect types: times are `Date`. */
export type PlainOutput<A> = A extends DateTime.DateTime
  ? Date
  : A extends string | Stream.Stream<unknown, unknown, unknown>
    ? A
    : { readonly [K in keyof A]: PlainOutput<A[K]> }

/** Every operation of the contract as a promise, which rejects with the error of the effect. */
export type PromiseCalls = {
  readonly [Id in HttpApiGroup.Identifier<Groups>]: {
    readonly [Name in Called<Id>]: Endpoints<Id>[Name] extends infer Endpoint extends
      HttpApiEndpoint.ConstraintRequest
      ? (
          ...args: Arguments<PlainInput<CallInput<Endpoint>>, [options?: CallOptions]>
        ) => Promise<PlainOutput<CallResult<Endpoint>>>
      : never
  }
}
