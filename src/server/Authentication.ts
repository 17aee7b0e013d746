import { Effect, Layer } from "effect"
import { Authentication, Authorized, CurrentPrincipal, type GateId, requires } from "../api/Authorization.ts"
import { InsufficientScope } from "../api/Problems.ts"
import { type Scope, scopes } from "../domain/Scope.ts"
import { ApiKeys } from "./ApiKeys.ts"

/** Turns the bearer key of a request into its principal. */
export const layer: Layer.Layer<Authentication, never, ApiKeys> = Layer.effect(
  Authentication,
  Effect.gen(function* () {
    const keys = yield* ApiKeys
    return Authentication.of({
      // Untraced: this runs in front of every operation.
      api_key: Effect.fnUntraced(function* (operation, { credential }) {
        const principal = yield* keys.verify(credential)
        return yield* Effect.provideService(operation, CurrentPrincipal, principal)
      })
    })
  })
)

const layerGate = (scope: Scope): Layer.Layer<Gated> => {
  const proof = Authorized(scope)
  const refused = Effect.fail(
    new InsufficientScope({ detail: `The operation asks for ${scope}`, required_scope: scope })
  )
  return Layer.succeed(requires(scope), (operation) =>
    Effect.flatMap(CurrentPrincipal, (principal) =>
      Effect.andThen(
        principal.scopes.has(scope) ? Effect.void : refused,
        Effect.provideService(operation, proof, principal)
      )
    )
  )
}

/** The gates of all scopes. */
export const layerGates: Layer.Layer<Gated> = Layer.mergeAll(
  layerGate("keys.write"),
  ...scopes.map(layerGate)
)

/** What a layer with the gate of every scope provides. */
export type Gated = GateId<Scope>
