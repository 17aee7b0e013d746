import { Context, Effect, Layer } from "effect"
import type { SqlError } from "effect/sql"
import type { LinkRequest } from "./EmailAddresses.ts"
import type { KeyRef } from "./KeyRef.ts"

/**
 * Sends links by which the owners of email addresses confirm them. `notifications` provides it, because it sends email.
 */
export class VerificationLinks extends Context.Service<
  VerificationLinks,
  {
    /**
     * Queues an email with a link to the address of a key, within the caller's transaction. Without `again`, none is sent
     * while an earlier link can still be used.
     */
    readonly send: (
      key: KeyRef,
      options: { readonly again: boolean }
    ) => Effect.Effect<LinkRequest | { readonly _tag: "NoMailServer" }, SqlError.SqlError>
  }
>()("countersign/server/identity/VerificationLinks") {
  /** Without a mail server, as on the command line. */
  static readonly layerNone = Layer.succeed(VerificationLinks, {
    send: () => Effect.succeed({ _tag: "NoMailServer" })
  })
}
