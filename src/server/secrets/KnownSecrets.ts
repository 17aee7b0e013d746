import { Array as Arr, Context, Effect, Layer, Redacted, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { KnownValues } from "../../domain/redaction/Redaction.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { readPolicy } from "./KnownSecrets/readPolicy.ts"
import { readSecrets } from "./KnownSecrets/readSecrets.ts"
import { readSecretsVersion } from "./secretsVersion.ts"
import { SecretBox } from "./SecretBox.ts"
import { LruCache } from "../concurrency/LruCache.ts"

/** Limits of the cache: organizations, and the secrets of all of them together. */
const MAX_CACHED_ORGANIZATIONS = 1_000
const MAX_CACHED_SECRETS = 20_000

/** Organizations whose secrets are read concurrently: one organization may have thousands. */
const MAX_CONCURRENT_READS = 4

/** Secrets indexed per tick of the event loop: about a millisecond. */
const SECRETS_PER_TICK = 100

/**
 * The credentials that the service stores for an organization (signing secrets, collector headers, provider keys), and
 * its redaction settings. Texts from callers are searched for these values before they are stored or sent. API keys are
 * not among them: redaction recognizes an API key by its format and checksum.
 */
export class KnownSecrets extends Context.Service<
  KnownSecrets,
  {
    /**
     * The organization's current secrets, indexed for searching, and its policy. Cached; each call queries only whether
     * they have changed.
     */
    readonly forOrg: (org_id: OrgId) => Effect.Effect<KnownValues>
    /** Like `forOrg`, for a caller that has read `secretsVersion` in a statement of its own. */
    readonly forVersion: (org_id: OrgId, version: string) => Effect.Effect<KnownValues>
  }
>()("countersign/server/secrets/KnownSecrets") {
  static readonly layer = Layer.effect(
    KnownSecrets,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const box = yield* SecretBox
      const cache = new LruCache<{ readonly version: string; readonly values: KnownValues }>({
        entries: MAX_CACHED_ORGANIZATIONS,
        weight: MAX_CACHED_SECRETS
      })

      const findCached = (org_id: OrgId, version: string): KnownValues | undefined => {
        const entry = cache.get(org_id)
        return entry?.version === version ? entry.values : undefined
      }

      const reads = yield* Semaphore.make(MAX_CONCURRENT_READS)
      const read = Effect.fnUntraced(function* (org_id: OrgId, version: string) {
        // Another fiber may have filled the cache while this one waited for its permit.
        const cached = findCached(org_id, version)
        if (cached !== undefined) return cached
        const secrets = yield* readSecrets(sql, box, org_id)
        const values = new KnownValues([], yield* readPolicy(sql, org_id))
        for (const chunk of Arr.chunksOf(secrets, SECRETS_PER_TICK)) {
          values.add(chunk.flatMap((secret) => searchForms(Redacted.value(secret))))
          yield* Effect.yieldNow
        }
        cache.set(org_id, { version, values }, values.size + values.policy.size)
        return values
      }, Effect.orDie)

      // On the hot path of feedback: a hit creates no fiber and no span.
      const forVersion = (org_id: OrgId, version: string): Effect.Effect<KnownValues> =>
        Effect.suspend(() => {
          const cached = findCached(org_id, version)
          return cached === undefined ? reads.withPermits(1)(read(org_id, version)) : Effect.succeed(cached)
        })

      return KnownSecrets.of({
        forVersion,
        forOrg: (org_id) =>
          Effect.flatMap(Effect.orDie(readSecretsVersion(sql, org_id)), (version) =>
            forVersion(org_id, version)
          )
      })
    })
  )

  /** Without the credentials, for commands that have no master key. */
  static readonly layerPolicyOnly = Layer.effect(
    KnownSecrets,
    Effect.map(SqlClient.SqlClient, (sql) => {
      const forOrg = (org_id: OrgId) =>
        Effect.map(Effect.orDie(readPolicy(sql, org_id)), (policy) => new KnownValues([], policy))
      return KnownSecrets.of({ forOrg, forVersion: forOrg })
    })
  )
}

/**
 * The texts to search for: the secret itself, for a scheme and a credential (`Bearer X`) also the credential alone, and for a signing
 * secret also its base64 part.
 */
const searchForms = (secret: string): ReadonlyArray<string> => {
  const credential = /^[A-Za-z][\w-]{0,30}[ \t]+(\S.*)$/.exec(secret)?.[1]
  return credential === undefined ? [secret.replace(/^whsec_/, ""), secret] : [secret, credential]
}
