import { Effect, Layer } from "effect"
import { Delivery } from "../delivery/Delivery.ts"
import { EmailAddresses } from "../identity/EmailAddresses.ts"
import { VerificationLinks } from "../identity/VerificationLinks.ts"
import { MAIL, mailDestination } from "./Email/MailChannel.ts"
import { MailTransport } from "./MailTransport.ts"

/** The label of the deliveries of verification emails. It has no address, so that the log keeps none that was removed. */
const LABEL = "email.verification"

/** Sends verification links through the mail channel. Without a mail server none is recorded or sent. */
export const layerVerificationLinks: Layer.Layer<
  VerificationLinks,
  never,
  MailTransport | Delivery | EmailAddresses
> = Layer.effect(
  VerificationLinks,
  Effect.gen(function* () {
    const { server } = yield* MailTransport
    const delivery = yield* Delivery
    const addresses = yield* EmailAddresses
    if (server === undefined) return { send: () => Effect.succeed({ _tag: "NoMailServer" } as const) }
    const destination_id = mailDestination(server)

    return {
      send: Effect.fn("VerificationLinks.send")(function* (key, options) {
        const request = yield* addresses.requestLink(key, options)
        if (request._tag === "Requested") {
          const { event_id } = request
          yield* delivery.enqueue([
            { org_id: key.org_id, channel: MAIL, destination_id, event_id, label: LABEL }
          ])
        }
        return request
      })
    }
  })
)
