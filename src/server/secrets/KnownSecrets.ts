import {
  Array as Arr,
  Context,
  Deferred,
  Effect,
  Exit,
  Layer,
  Redacted,
  Result,
  Schema,
  Semaphore
} from "effect"
import { SqlClient } from "effect/sql"
import { KnownValues } from "../../domain/redaction/Redaction.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { readSecretsVersions } from "./secretsVersion.ts"
import { SecretBox } from "./SecretBox.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { compilePolicy, noPolicy } from "../../domain/redaction/RedactionPolicy.ts"
import { RedactionRules } from "../../domain/redaction/RedactionRules.ts"
import { makeStatementBatcher } from "../store/makeStatementBatcher.ts"
import { rowsOf } from "../store/rows.ts"
import { isInTransaction } from "../store/transaction.ts"
import { placeOf, sealedColumns } from "./SecretBox/sealedColumns.ts"

const SealedValueRow = Schema.Struct({
  /** The row's key, without its organization. */
  key: Schema.fromJsonString(Schema.Array(Schema.String)),
  value: Schema.Uint8Array
})

const sealedValues = rowsOf(SealedValueRow)

/** Reads and unseals the organization's credentials, from every sealed column that contains credentials. */
const readSecrets = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId
) {
  const secrets: Array<Redacted.Redacted> = []
  for (const sealed of sealedColumns) {
    if (sealed.credentials === undefined) continue
    const { newest, parse } = sealed.credentials
    const column = sql(sealed.column)
    const rows = yield* sealedValues.all(sql`
      SELECT json_build_array(${sql.literal(sealed.key.join(", "))})::text AS key, ${column} AS value
      FROM ${sql(sealed.table)}
      WHERE org_id = ${org_id}
        AND ${column} IS NOT NULL
      ${newest === undefined ? sql.literal("") : sql`ORDER BY ${sql(newest.by)} DESC LIMIT ${newest.limit}`}
    `)
    for (const { key, value } of rows) {
      const plaintext = Redacted.value(yield* box.unseal(placeOf(sealed, org_id, key), value))
      secrets.push(...parse(plaintext).map((secret) => Redacted.make(secret)))
    }
  }
  return secrets
})

const rulesRows = rowsOf(Schema.Struct({ rules: RedactionRules }))

/**
 * Reads and compiles the organization's redaction rules. Rules that no longer compile are a defect: a text must not be stored without them.
 */
const readPolicy = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  const row = yield* rulesRows.first(sql`SELECT rules FROM redaction_settings WHERE org_id = ${org_id}`)
  if (row === undefined) return noPolicy
  const policy = compilePolicy(row.rules)
  if (Result.isSuccess(policy)) return policy.success
  const places = policy.failure.map(({ pointer }) => pointer).join(", ")
  return yield* Effect.die(new Error(`Stored redaction rules of ${org_id} do not compile: ${places}`))
})

/** Limits of the cache: organizations, and the secrets of all of them together. */
const MAX_CACHED_ORGANIZATIONS = 1_000
const MAX_CACHED_SECRETS = 20_000

/** Calls whose versions one statement reads. */
const MAX_VERSIONS = 500

/** Organizations whose secrets are read concurrently, in transactions and outside: one organization may have thousands. */
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
     * they have changed, together with others.
     */
    readonly forOrg: (org_id: OrgId) => Effect.Effect<KnownValues>
    /** Like `forOrg`, for a caller that has read `secretsVersion` in a statement of its own, or compares it in one. */
    readonly forVersion: (org_id: OrgId, version: string) => Effect.Effect<KnownValues>
    /** The current version. */
    readonly version: (org_id: OrgId) => Effect.Effect<string>
    /** The version that was seen last on this replica, which may have changed. Without any, the current one. */
    readonly lastVersion: (org_id: OrgId) => Effect.Effect<string>
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

      const read = Effect.fnUntraced(function* (org_id: OrgId, version: string) {
        const secrets = yield* readSecrets(sql, box, org_id)
        const values = new KnownValues([], yield* readPolicy(sql, org_id))
        for (const chunk of Arr.chunksOf(secrets, SECRETS_PER_TICK)) {
          values.add(chunk.flatMap((secret) => searchForms(Redacted.value(secret))))
          yield* Effect.yieldNow
        }
        cache.set(org_id, { version, values }, values.size + values.policy.size)
        return values
      }, Effect.orDie)

      const reads = yield* makeSingleFlight({ findCached, read })
      // A call in a transaction has a connection. It must not wait for a read that waits for one.
      const readsInTransactions = yield* makeSingleFlight({ findCached, read })

      // On the hot path of feedback: a hit creates no fiber and no span.
      const forVersion = (org_id: OrgId, version: string): Effect.Effect<KnownValues> =>
        Effect.suspend(() => {
          const cached = findCached(org_id, version)
          if (cached !== undefined) return Effect.succeed(cached)
          return Effect.flatMap(isInTransaction, (inside) =>
            (inside ? readsInTransactions : reads)(org_id, version)
          )
        })

      // Concurrent calls share a statement, which begins after each of them.
      const readVersion = yield* makeStatementBatcher({
        sql,
        maxBatch: MAX_VERSIONS,
        organizationOf: (org_id: OrgId) => org_id,
        run: (organizations, org_id) => readSecretsVersions(sql, organizations, org_id)
      })

      const version = (org_id: OrgId) => Effect.orDie(readVersion(org_id))
      return KnownSecrets.of({
        forVersion,
        version,
        lastVersion: (org_id) =>
          Effect.suspend(() => {
            const entry = cache.get(org_id)
            return entry === undefined ? version(org_id) : Effect.succeed(entry.version)
          }),
        forOrg: (org_id) => Effect.flatMap(version(org_id), (current) => forVersion(org_id, current))
      })
    })
  )

  /** Without the credentials, for commands that have no master key. */
  static readonly layerPolicyOnly = Layer.effect(
    KnownSecrets,
    Effect.map(SqlClient.SqlClient, (sql) => {
      const forOrg = (org_id: OrgId) =>
        Effect.map(Effect.orDie(readPolicy(sql, org_id)), (policy) => new KnownValues([], policy))
      const version = () => Effect.succeed("")
      return KnownSecrets.of({ forOrg, forVersion: forOrg, version, lastVersion: version })
    })
  )
}

/**
 * Single-flight: makes a function that reads the values of organizations, each by one fiber at a time, whose result the other callers share.
 * If that fiber is interrupted, one of them reads instead.
 */
const makeSingleFlight = Effect.fnUntraced(function* ({
  findCached,
  read
}: {
  readonly findCached: (org_id: OrgId, version: string) => KnownValues | undefined
  readonly read: (org_id: OrgId, version: string) => Effect.Effect<KnownValues>
}) {
  const permits = yield* Semaphore.make(MAX_CONCURRENT_READS)
  /** The reads in flight. The result is undefined after an interruption. */
  const inFlight = new Map<
    OrgId,
    { readonly version: string; readonly result: Deferred.Deferred<KnownValues | undefined> }
  >()

  const start = (org_id: OrgId, version: string, reading: Effect.Effect<KnownValues>) => {
    const result = Deferred.makeUnsafe<KnownValues | undefined>()
    inFlight.set(org_id, { version, result })
    return Effect.onExit(reading, (exit) =>
      Effect.sync(() => {
        inFlight.delete(org_id)
        Deferred.doneUnsafe(result, Exit.hasInterrupts(exit) ? Exit.succeed(undefined) : exit)
      })
    )
  }

  const get = (org_id: OrgId, version: string): Effect.Effect<KnownValues> =>
    Effect.uninterruptibleMask((restore): Effect.Effect<KnownValues | undefined> => {
      // After a wait for another read, which may have filled the cache.
      const cached = findCached(org_id, version)
      if (cached !== undefined) return Effect.succeed(cached)
      const other = inFlight.get(org_id)
      if (other === undefined) {
        return start(org_id, version, restore(permits.withPermits(1)(read(org_id, version))))
      }
      return Effect.map(restore(Deferred.await(other.result)), (values) =>
        other.version === version ? values : undefined
      )
    }).pipe(
      Effect.flatMap((values) => (values === undefined ? get(org_id, version) : Effect.succeed(values)))
    )
  return get
})

/**
 * The texts to search for: the secret itself, for a scheme and a credential (`Bearer X`) also the credential alone, and for a signing
 * secret also its base64 part.
 */
const searchForms = (secret: string): ReadonlyArray<string> => {
  const credential = /^[A-Za-z][\w-]{0,30}[ \t]+(\S.*)$/.exec(secret)?.[1]
  return credential === undefined ? [secret.replace(/^whsec_/, ""), secret] : [secret, credential]
}
