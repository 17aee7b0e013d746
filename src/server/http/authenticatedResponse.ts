import { Effect } from "effect"
import { HttpEffect } from "effect/http"
import type { Principal } from "../../domain/identity/Principal.ts"
import { AuthenticationRefusals } from "../identity/AuthenticationRefusals.ts"
import { ClientAddress } from "./ClientAddress.ts"
import type { Quota } from "../admission/RateLimits.ts"

const FORBIDDEN = 403

/**
 * Makes a function that runs an authenticated request. Its response, whichever it is, gets the headers of the rate
 * limits; a 403 is recorded in `AuthenticationRefusals`. Both happen when the response is sent,
 * because problems become responses only outside of the authentication.
 */
export const makeAuthenticatedResponse = Effect.gen(function* () {
  const refusals = yield* AuthenticationRefusals
  const client = yield* ClientAddress
  return ({ actor, org_id }: Pick<Principal, "actor" | "org_id">, quota: Quota) =>
    <A, E, R>(request: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.withFiber((fiber) => {
        HttpEffect.appendPreResponseHandlerUnsafe(fiber.context, (sent, response) => {
          if (response.status === FORBIDDEN) {
            const key = { org_id, key_id: actor.id }
            refusals.record({ reason: "forbidden", address: client.of(sent), key })
          }
          return Effect.succeed(quota.addHeaders(response))
        })
        return request
      })
})
