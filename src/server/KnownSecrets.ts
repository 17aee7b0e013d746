import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { KnownValues } from "../domain/Redaction.ts"
import type { OrgId } from "../domain/Ids.ts"
import { secretsOf, stateOfSecrets } from "./KnownSecrets/rows.ts"
import { SecretBox } from "./SecretBox.ts"
import { LeastRecent } from "./LeastRecent.ts"

/** Organizations whose secrets one process keeps ready to be looked for, and secrets of all of them together. */
const KEPT_ORGANIZATIONS = 1_000
const KEPT_SECRETS = 20_000

/**
 * The credentials of an organization that the service itself holds: signing secrets, collector headers, provider keys. What anybody
 * writes is searched for them before it is kept or sent.
 */
export class KnownSecrets extends Context.Service<
  KnownSecrets,
  {
    /**
     * The organization's secrets as they stand now, opened, ready to be looked for. Asks the store only whether they have changed
     * since they were opened last. Its API keys are not among them: those are known by their form and checksum.
     */
    readonly of: (org_id: OrgId) => Effect.Effect<KnownValues>
    /** The same for a caller that has read `secretsState` with something else of its own. */
    readonly at: (org_id: OrgId, state: string) => Effect.Effect<KnownValues>
  }
>()("countersign/server/KnownSecrets") {
  static readonly layer = Layer.effect(
    KnownSecrets,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const box = yield* SecretBox
      const kept = new LeastRecent<{ readonly state: string; readonly values: KnownValues }>({
        entries: KEPT_ORGANIZATIONS,
        weight: KEPT_SECRETS
      })

      // Untraced: asked with every correction.
      const at = Effect.fnUntraced(function* (org_id: OrgId, state: string) {
        const known = kept.get(org_id)
        if (known?.state === state) return known.values
        const secrets = yield* secretsOf(sql, box, org_id)
        const values = new KnownValues(secrets.flatMap((secret) => forms(Redacted.value(secret))))
        kept.set(org_id, { state, values }, values.size)
        return values
      }, Effect.orDie)

      return KnownSecrets.of({
        at,
        of: (org_id) =>
          Effect.flatMap(Effect.orDie(stateOfSecrets(sql, org_id)), (state) => at(org_id, state))
      })
    })
  )
}

/** A secret, and where it is a scheme and a credential (`Bearer X`) the credential alone; of a signing secret what is encoded in it. */
const forms = (secret: string): ReadonlyArray<string> => {
  const credential = /^[A-Za-z][\w-]{0,30}[ \t]+(\S.*)$/.exec(secret)?.[1]
  return credential === undefined ? [secret.replace(/^whsec_/, ""), secret] : [secret, credential]
}
