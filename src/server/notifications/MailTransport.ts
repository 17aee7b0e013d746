import { Context, Effect, Layer, Redacted } from "effect"
import type { AttemptOutcome } from "../../domain/delivery/DeliveryState.ts"
import { type Mail, type MailSettings, makeSmtp } from "./Email/Smtp.ts"

export type { Mail, MailSettings } from "./Email/Smtp.ts"

/** Sends the emails that the delivery engine hands over: through an SMTP server, or a test's replacement. */
export class MailTransport extends Context.Service<
  MailTransport,
  {
    /** The name of the server. Its emails share one queue and one health. Undefined: no server is configured, and nothing is sent. */
    readonly server: string | undefined
    /** Makes one attempt. Interruption ends it. */
    readonly send: (mail: Mail) => Effect.Effect<AttemptOutcome>
  }
>()("countersign/server/notifications/MailTransport") {
  /** Connections to the operator's SMTP server; without settings no email is sent. */
  static readonly layer = (settings: MailSettings | undefined): Layer.Layer<MailTransport> =>
    settings === undefined
      ? Layer.succeed(MailTransport, { server: undefined, send: () => noMailServer })
      : Layer.effect(
          MailTransport,
          Effect.map(makeSmtp(settings), ({ send }) =>
            MailTransport.of({ server: new URL(Redacted.value(settings.url)).host, send })
          )
        )
}

/** The outcome of an email that was queued while a mail server was configured. */
export const noMailServer: Effect.Effect<AttemptOutcome> = Effect.succeed({
  _tag: "Refused",
  error: "no mail server is configured"
})
