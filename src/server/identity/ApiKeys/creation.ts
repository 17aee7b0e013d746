import { Array as Arr, DateTime, Effect, Option, Redacted, Result } from "effect"
import type { SqlClient } from "effect/sql"
import type { NewApiKey } from "../../../api/ApiKeys.ts"
import { LimitReached, NameInUse } from "../../../api/Problems.ts"
import * as ApiKeyFormat from "../../../domain/identity/ApiKeyFormat.ts"
import { type EventId, KeyId, type OrgId } from "../../../domain/Ids.ts"
import type { Actor, Principal } from "../../../domain/identity/Principal.ts"
import { type Scope, scopes as allScopes } from "../../../domain/identity/Scope.ts"
import { formatTimestamp, type Timestamp } from "../../../domain/Time.ts"
import type { LimitUse } from "../../observability/LimitUse.ts"
import { reportQuota } from "../../observability/reportQuota.ts"
import { atomic } from "../../store/transaction.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { Audit } from "../Audit.ts"
import { upsertConfirmed } from "../EmailAddresses.ts"
import type { Organizations } from "../Organizations.ts"
import type { VerificationLinks } from "../VerificationLinks.ts"
import {
  expiryWithin,
  invalid,
  type KeyLimits,
  limitsIn,
  networksWithin,
  requestedScopes,
  requireGivable,
  scopesOf
} from "./keyRights.ts"
import {
  countStoredKeys,
  countUsableKeys,
  findListedKey,
  findMaker,
  insertKey,
  isNameInUse,
  type KeyRow,
  toApiKey
} from "./rows.ts"
import { invalidKey } from "./verifyKey.ts"

/** The longest line of keys in which each created the next. It bounds what verifying a key and revoking one cost. */
export const MAX_GENERATIONS = 32

/**
 * Maximum ratio of stored keys to the limit of usable ones: bounds revoked and expired keys until retention removes
 * them.
 */
const STORED_KEYS_PER_USABLE = 10

/** The key that creates another. */
export type KeyMaker = Pick<Principal, "org_id" | "actor">

/** Dependencies. */
interface Options {
  readonly sql: SqlClient.SqlClient
  readonly clock: StoreClock["Service"]
  readonly organizations: Organizations["Service"]
  readonly audit: Audit["Service"]
  readonly links: VerificationLinks["Service"]
  readonly use: LimitUse["Service"]
  /** The most usable keys of an organization; zero: no limit. */
  readonly maxKeys: number
  /** Whether addresses must be verified. */
  readonly verifiedOnly: boolean
}

/** Creates keys: see `ApiKeys.create`. */
export const makeKeyCreation = ({
  audit,
  clock,
  links,
  maxKeys,
  organizations,
  sql,
  use,
  verifiedOnly
}: Options) => {
  const atomically = atomic(sql)

  /** Checks the organization's limit of keys, under the organization's lock. */
  const requireCapacity = Effect.fnUntraced(function* (org_id: OrgId, now: Timestamp) {
    if (maxKeys === 0) return
    const usable = yield* countUsableKeys(sql, org_id, now, maxKeys)
    yield* reportQuota({ name: "api_keys", limit: maxKeys, remaining: maxKeys - usable - 1 })
    if (usable < maxKeys) {
      const maxStored = maxKeys * STORED_KEYS_PER_USABLE
      if ((yield* countStoredKeys(sql, org_id, maxStored)) < maxStored)
        return use.used("api_keys", (usable + 1) / maxKeys)
      use.refused("api_keys")
      return yield* new LimitReached({
        detail: `Too many API keys, including revoked and expired ones (limit ${maxStored} for each organization). They are removed some time after they were revoked or have expired. Wait, and create fewer keys.`
      })
    }
    use.refused("api_keys")
    return yield* new LimitReached({
      detail: `Too many API keys (limit ${maxKeys} for each organization, without revoked and expired ones). Revoke one first.`
    })
  })

  /** Stores a new key. `scopes` and `limitsOf` limit `input` to the caller's rights. */
  const make = Effect.fn("ApiKeys.make")(function* <E>(
    org_id: OrgId,
    input: NewApiKey,
    {
      confirmation,
      created_by,
      limitsOf,
      provided = Option.none(),
      scopes
    }: {
      readonly scopes: ReadonlyArray<Scope>
      readonly created_by: Actor | null
      readonly limitsOf: (now: Timestamp) => Effect.Effect<KeyLimits, E>
      readonly provided?: Option.Option<ApiKeyFormat.ParsedApiKey>
      /** The email by which the owner of the address confirmed it. */
      readonly confirmation?: { readonly event_id: EventId }
    }
  ) {
    const { publicId, key } = Option.isSome(provided) ? provided.value : yield* ApiKeyFormat.generateApiKey
    const key_id = yield* KeyId.generate
    const created = yield* atomically(
      Effect.gen(function* () {
        // Serializes it with revocations: a key that is being revoked must not leave a new key behind.
        yield* organizations.lockForUpdate(org_id)
        const now = yield* clock.now
        const { allowed_networks, expires_at } = yield* limitsOf(now)
        const row: KeyRow = {
          org_id,
          key_id,
          public_id: publicId,
          name: input.name,
          preset: input.preset ?? null,
          scopes,
          groups: Arr.dedupe(input.groups ?? []),
          email: input.email ?? null,
          created_at: now,
          created_by_id: created_by?.id ?? null,
          created_by_name: created_by?.name ?? null,
          expires_at,
          revoked_at: null,
          revocation_reason: null,
          allowed_networks
        }
        yield* insertKey(sql, row, ApiKeyFormat.apiKeyDigest(key), requestedScopes(input) === undefined)
        if (confirmation !== undefined) yield* upsertConfirmed(sql, { org_id, key_id, now, ...confirmation })
        // Beyond the limit of links the key is created nonetheless: a link can be requested later.
        else if (verifiedOnly && row.email !== null) yield* links.send({ org_id, key_id }, { again: false })
        yield* audit.record({ org_id, actor: created_by }, "key.created", key_id, {
          name: row.name,
          preset: row.preset,
          scopes,
          ...(row.groups.length === 0 ? {} : { groups: row.groups }),
          expires_at: row.expires_at === null ? null : formatTimestamp(row.expires_at),
          ...(allowed_networks === null ? {} : { allowed_networks })
        })
        // Its address may have been confirmed for another key.
        const listed = row.email === null ? undefined : yield* findListedKey(sql, row, now)
        return listed ?? { ...row, last_used_at: null, email_verified_at: null }
      })
    )
    return { key: toApiKey(created, verifiedOnly), secret: key }
  })

  /**
   * The limits of a key that another key creates: by default its maker's, and never wider ones. Also checks whether
   * the maker may create keys; runs under the organization's lock.
   */
  const limitByMaker = Effect.fnUntraced(function* (
    { actor, org_id }: KeyMaker,
    input: NewApiKey,
    scopes: ReadonlyArray<Scope>,
    now: Timestamp
  ) {
    const maker = yield* Effect.orDie(findMaker(sql, { org_id, key_id: actor.id }))
    // The key was verified up to five seconds ago, and its rights may have been reduced since.
    if (maker === undefined || maker.revoked) return yield* invalidKey("revoked")
    if (maker.expires_at !== null && DateTime.isLessThanOrEqualTo(maker.expires_at, now)) {
      return yield* invalidKey("expired")
    }
    yield* requireGivable(input, scopes, { groups: maker.groups, scopes: new Set(maker.scopes) })
    const requested = yield* limitsIn(input, now)
    yield* requireCapacity(org_id, now)
    if (maker.generation + 1 >= MAX_GENERATIONS) {
      return yield* invalid(
        "",
        `This key is the last of ${MAX_GENERATIONS} that created each other. Use an earlier one, or \`countersign keys create\`.`
      )
    }
    if (yield* Effect.orDie(isNameInUse(sql, org_id, input.name, now))) {
      return yield* new NameInUse({
        detail: "A usable key of this organization has this name. Choose another, or revoke that key first."
      })
    }
    return {
      expires_at: yield* expiryWithin(requested.expires_at, maker.expires_at),
      allowed_networks: yield* networksWithin(requested.allowed_networks, maker.allowed_networks)
    }
  })

  return {
    /** A key that another key creates. `confirmation`: the email by which the owner of the address confirmed it. */
    createBy: Effect.fnUntraced(function* (
      maker: KeyMaker,
      input: NewApiKey,
      confirmation?: { readonly event_id: EventId }
    ) {
      const scopes = yield* scopesOf(input)
      return yield* make(maker.org_id, input, {
        scopes,
        ...(confirmation === undefined ? {} : { confirmation }),
        created_by: maker.actor,
        limitsOf: (now) => limitByMaker(maker, input, scopes, now)
      })
    }),
    requireCreatable: Effect.fnUntraced(function* (maker: KeyMaker, input: NewApiKey) {
      const scopes = yield* scopesOf(input)
      yield* atomically(Effect.flatMap(clock.now, (now) => limitByMaker(maker, input, scopes, now)))
    }),
    createFor: Effect.fn("ApiKeys.createFor")(function* (org_name: string, input: NewApiKey) {
      const scopes = yield* scopesOf(input)
      // In one transaction: a key that is refused leaves no organization behind.
      return yield* atomically(
        Effect.flatMap(organizations.ensure(org_name), (org_id) =>
          make(org_id, input, { scopes, created_by: null, limitsOf: (now) => limitsIn(input, now) })
        )
      )
    }),
    bootstrap: Effect.fn("ApiKeys.bootstrap")(function* ({
      key,
      org_name
    }: {
      readonly org_name: string
      readonly key: Option.Option<Redacted.Redacted<string>>
    }) {
      const provided = Option.map(key, (text) => ApiKeyFormat.parseApiKey(Redacted.value(text)))
      if (Option.isSome(provided) && Result.isFailure(provided.value))
        return yield* invalidKey(provided.value.failure)
      return yield* atomically(
        Effect.gen(function* () {
          // Of two replicas that start on an empty database at the same time, one creates the key.
          yield* organizations.lockAll
          if (yield* organizations.hasAnyKey) return Option.none()
          const org_id = yield* organizations.ensure(org_name)
          const created = yield* make(
            org_id,
            { name: "first admin key", preset: "admin" },
            {
              scopes: allScopes,
              created_by: null,
              limitsOf: () => Effect.succeed({ expires_at: null, allowed_networks: null }),
              provided: Option.flatMap(provided, Result.getSuccess)
            }
          )
          return Option.some(created)
        })
      )
    })
  }
}
