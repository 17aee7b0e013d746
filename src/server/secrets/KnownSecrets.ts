import { Array as Arr, Context, Effect, Layer, Redacted, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { KnownValues } from "../../domain/redaction/Redaction.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { readSecrets, readSecretsVersion } from "./KnownSecrets/rows.ts"
import { SecretBox } from "./SecretBox.ts"
import { LruCache } from "../concurrency/LruCache.ts"

/** Organizations whose secrets one process keeps ready to be looked for, and secrets of all of them together. */
const KEPT_ORGANIZATIONS = 1_000
const KEPT_SECRETS = 20_000

/** How many callers at once open what has changed: an organization may have thousands of secrets. */
const OPENING = 4

/** Secrets that are made ready before others have their turn: a millisecond. */
const AT_ONCE = 100

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
    readonly forOrg: (org_id: OrgId) => Effect.Effect<KnownValues>
    /** The same for a caller that has read `secretsState` with something else of its own. */
    readonly forVersion: (org_id: OrgId, state: string) => Effect.Effect<KnownValues>
  }
>()("countersign/server/secrets/KnownSecrets") {
  static readonly layer = Layer.effect(
    KnownSecrets,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const box = yield* SecretBox
      const kept = new LruCache<{ readonly state: string; readonly values: KnownValues }>({
        entries: KEPT_ORGANIZATIONS,
        weight: KEPT_SECRETS
      })

      const found = (org_id: OrgId, state: string): KnownValues | undefined => {
        const known = kept.get(org_id)
        return known?.state === state ? known.values : undefined
      }

      const opening = yield* Semaphore.make(OPENING)
      const open = Effect.fnUntraced(function* (org_id: OrgId, state: string) {
        // Who waited may find what another has opened.
        const known = found(org_id, state)
        if (known !== undefined) return known
        const secrets = yield* readSecrets(sql, box, org_id)
        const values = new KnownValues([])
        for (const some of Arr.chunksOf(secrets, AT_ONCE)) {
          values.add(some.flatMap((secret) => forms(Redacted.value(secret))))
          yield* Effect.yieldNow
        }
        kept.set(org_id, { state, values }, values.size)
        return values
      }, Effect.orDie)

      // Asked with every correction.
      const at = (org_id: OrgId, state: string): Effect.Effect<KnownValues> =>
        Effect.suspend(() => {
          const known = found(org_id, state)
          return known === undefined ? opening.withPermits(1)(open(org_id, state)) : Effect.succeed(known)
        })

      return KnownSecrets.of({
        forVersion: at,
        forOrg: (org_id) =>
          Effect.flatMap(Effect.orDie(readSecretsVersion(sql, org_id)), (state) => at(org_id, state))
      })
    })
  )
}

/** A secret, and where it is a scheme and a credential (`Bearer X`) the credential alone; of a signing secret what is encoded in it. */
const forms = (secret: string): ReadonlyArray<string> => {
  const credential = /^[A-Za-z][\w-]{0,30}[ \t]+(\S.*)$/.exec(secret)?.[1]
  return credential === undefined ? [secret.replace(/^whsec_/, ""), secret] : [secret, credential]
}
