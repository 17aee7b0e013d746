import { Effect, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ConsoleApi } from "../../../api/Console.ts"
import { RateLimits } from "../../admission/RateLimits.ts"
import { ClientAddress } from "../../http/ClientAddress.ts"
import { Invitations } from "../../notifications/Invitations.ts"

/** The handler that accepts an invitation. */
export const ConsoleInvitationHttp = HttpApiBuilder.group(
  ConsoleApi,
  "invitation",
  Effect.fnUntraced(function* (handlers) {
    const invitations = yield* Invitations
    const limits = yield* RateLimits
    const client = yield* ClientAddress
    return handlers.handleAll({
      accept: Effect.fnUntraced(function* ({ payload, request }) {
        yield* limits.admitEmailConfirmation(client.of(request))
        const { key, secret } = yield* invitations.accept(Redacted.make(payload.token))
        return { name: key.name, secret: Redacted.value(secret) }
      })
    })
  })
)
