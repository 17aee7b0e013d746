import type { Effect } from "effect"
import type {
  HttpApi,
  HttpApiClient,
  HttpApiEndpoint,
  HttpApiGroup,
  HttpApiMiddleware
} from "effect/http-api"
import type { Api } from "../api/Api.ts"
import type { ServiceUnreachable } from "./ServiceUnreachable.ts"
import type { UnexpectedResponse } from "./UnexpectedResponse.ts"

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
 * The errors of an operation: its problems, {@link ServiceUnreachable} if no response arrived, or {@link UnexpectedResponse} for a response
 * outside the contract, as from another service at that address. Input that violates the contract fails with `INVALID_REQUEST`, before
 * anything is sent.
 */
export type CallError<Endpoint extends HttpApiEndpoint.ConstraintRequest> =
  | Endpoint["~Error"]["Type"]
  | HttpApiMiddleware.Error<Endpoint["~Middleware"]>
  | ServiceUnreachable
  | UnexpectedResponse

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
