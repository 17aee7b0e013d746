import { Context, Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { LinkRequest } from "./EmailAddresses.ts"
import type { KeyRef } from "./KeyRef.ts"

/**
 * Sends links by which the owners of email addresses confirm them. `notifications` provides it, because it sends email;
 * by default, as on the command line, there is no mail server.
 */
export const VerificationLinks = Context.Reference<{
  /**
   * Queues an email with a link to the address of a key, within the caller's transaction. Without `again`, none is sent
   * while an earlier link can still be used.
   */
  readonly send: (
    key: KeyRef,
    options: { readonly again: boolean }
  ) => Effect.Effect<LinkRequest | { readonly _tag: "NoMailServer" }, SqlError.SqlError>
}>("countersign/server/identity/VerificationLinks", {
  defaultValue: () => ({ send: () => Effect.succeed({ _tag: "NoMailServer" }) })
})
