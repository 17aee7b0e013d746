import { Array as Arr, Effect, Layer, Option, type Types } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import {
  Authentication,
  type Authorized,
  CurrentPrincipal,
  type ScopeCheck,
  type ScopeCheckId,
  requires,
  requiresEither
} from "../../api/Authorization.ts"
import { InsufficientScope } from "../../api/Problems.ts"
import { type Scope, scopes } from "../../domain/identity/Scope.ts"
import { ApiKeys } from "../identity/ApiKeys.ts"
import { problemResponse } from "./problemResponse.ts"
import { rateLimitExceeded, RateLimits } from "./RateLimits.ts"

/** Turns the bearer key of a request into its principal, as often as its limit lets it. */
export const layer: Layer.Layer<Authentication, never, ApiKeys | RateLimits> = Layer.effect(
  Authentication,
  Effect.gen(function* () {
    const keys = yield* ApiKeys
    const limits = yield* RateLimits
    const admit = Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ remoteAddress }) =>
      limits.admitKeyLookup(Option.getOrElse(remoteAddress, () => "unknown"))
    )
    return Authentication.of({
      // Untraced: this runs in front of every operation.
      api_key: Effect.fnUntraced(function* (operation, { credential }) {
        const principal = yield* keys.verify(credential, admit)
        const quota = yield* limits.admitRequest(principal.actor.id)
        const answer = quota.allowed
          ? Effect.provideService(operation, CurrentPrincipal, principal)
          : problemResponse(rateLimitExceeded(quota))
        return quota.addHeaders(yield* answer)
      })
    })
  })
)

const layerGate = <const S extends Scope>(scope: S): Layer.Layer<ScopeCheckId<S>> =>
  layerGateOf(requires(scope), [scope])

/** Lets holders of any of these scopes through. */
const layerGateOf = <S extends Scope>(
  gate: ScopeCheck<S>,
  scopes: Arr.NonEmptyReadonlyArray<Scope>
): Layer.Layer<ScopeCheckId<S>> => {
  const refused = Effect.fail(
    new InsufficientScope({
      detail: `The operation asks for ${scopes.join(" or ")}`,
      required_scope: scopes[0]
    })
  )
  return Layer.succeed(gate, (operation) =>
    Effect.flatMap(
      CurrentPrincipal,
      (
        principal
      ): Effect.Effect<
        HttpServerResponse.HttpServerResponse,
        InsufficientScope | Types.unhandled,
        CurrentPrincipal
      > => (scopes.some((scope) => principal.scopes.has(scope)) ? proven(operation) : refused)
    )
  )
}

/** The operation of a principal that was found to hold the scope: what proves it is the principal, which is there already. */
const proven = <A, E, S extends Scope>(
  operation: Effect.Effect<A, E, Authorized<S>>
): Effect.Effect<A, E, CurrentPrincipal> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `Authorized` is `CurrentPrincipal` at run time
  operation as Effect.Effect<A, E, never>

/** The gates of all scopes. */
export const layerGates: Layer.Layer<ScopeGates> = Layer.mergeAll(
  layerGateOf(requiresEither("feedback.read", "datasets.write"), ["feedback.read", "datasets.write"]),
  ...Arr.map(scopes, layerGate)
)

/** What a layer with the gate of every scope provides. */
export type ScopeGates = ScopeCheckId<Scope>
