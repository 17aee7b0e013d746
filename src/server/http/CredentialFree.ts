import { Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import { CurrentPrincipal } from "../../api/Authorization.ts"
import { CredentialFree } from "../../api/Middleware.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { describedIn, refuseCredentials } from "../secrets/refuseCredentials.ts"

/** Refuses bodies with a known credential in a descriptive member, of the body itself or of an element of its lists. */
export const layer: Layer.Layer<CredentialFree, never, KnownSecrets> = Layer.effect(
  CredentialFree,
  Effect.gen(function* () {
    const secrets = yield* KnownSecrets
    return CredentialFree.of(
      Effect.fnUntraced(function* (operation) {
        const request = yield* HttpServerRequest.HttpServerRequest
        // `RequestBody` has read and checked it; the operation refuses a body that is not JSON.
        const body = yield* Effect.orElseSucceed(request.json, () => null)
        const members = describedIn(body)
        if (members.length > 0) {
          const { org_id } = yield* CurrentPrincipal
          yield* refuseCredentials(members, yield* secrets.forOrg(org_id))
        }
        return yield* operation
      })
    )
  })
)
