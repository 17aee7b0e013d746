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

/** One part of a request; a part of which nothing is required may be left out. */
type Part<Name extends string, Value> = [Value] extends [never]
  ? unknown
  : {} extends Value
    ? { readonly [K in Name]?: Value }
    : { readonly [K in Name]: Value }

/** What a call takes: `params`, `query`, `headers` and `payload`, as far as the operation has them. */
export type CallInput<Endpoint extends HttpApiEndpoint.ConstraintRequest> = Part<
  "params",
  Endpoint["~Params"]["Type"]
> &
  Part<"query", Endpoint["~Query"]["Type"]> &
  Part<"headers", Endpoint["~Headers"]["Type"]> &
  Part<"payload", Endpoint["~Payload"]["Type"]>

/** What a call answers with. */
export type CallResult<Endpoint extends HttpApiEndpoint.ConstraintRequest> = HttpApiClient.SuccessType<
  Endpoint["~Success"]
>

/**
 * Why a call can fail: the problems of its operation, no answer (`HttpClientError`), or an answer that is not of the contract
 * (`SchemaError`), as from another service at that address.
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

/** The operations of a group that are called and answer. `stream` does not: it is followed (`Client.stream`). */
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

/** How one call by promise goes. */
export interface CallOptions {
  /** Ends the call. What the service was asked may have happened by then. */
  readonly signal?: AbortSignal
}

/**
 * What a caller without Effect gives: ids and other branded texts as plain strings, times as `Date` or as RFC 3339 text. The contract's
 * schemas check them before anything is sent.
 */
export type PlainInput<A> = A extends string & Brand.Brand<string>
  ? string
  : A extends DateTime.DateTime
    ? Date | string
    : A extends Redacted.Redacted
      ? A
      : { readonly [K in keyof A]: PlainInput<A[K]> }

/** What such a caller is answered: times as `Date`. */
export type PlainOutput<A> = A extends DateTime.DateTime
  ? Date
  : A extends string | Stream.Stream<unknown, unknown, unknown>
    ? A
    : { readonly [K in keyof A]: PlainOutput<A[K]> }

/** The same operations as promises, which reject with what the effect fails with. */
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
