import { Array as Arr, Context, DateTime, Effect, Layer, Option, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { ApiKeyChange, ApiKeyQuery, NewApiKey } from "../../api/ApiKeys.ts"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  type EmailNotVerifiable,
  type InsufficientScope,
  type InvalidApiKey,
  type InvalidRequest,
  type KeyEnded,
  type LastAdminKey,
  LimitReached,
  NameInUse,
  type NotFound,
  type RateLimited
} from "../../api/Problems.ts"
import type { ApiKey } from "../../domain/identity/ApiKey.ts"
import * as ApiKeyFormat from "../../domain/identity/ApiKeyFormat.ts"
import { type EventId, KeyId, type OrgId } from "../../domain/Ids.ts"
import type { Actor, Principal } from "../../domain/identity/Principal.ts"
import { formatTimestamp, type Timestamp } from "../../domain/Time.ts"
import { type Scope, scopes as allScopes } from "../../domain/identity/Scope.ts"
import { Audit } from "./Audit.ts"
import {
  countStoredKeys,
  countUsableKeys,
  findListedKey,
  findMaker,
  insertKey,
  isNameInUse,
  type KeyRow,
  listKeys,
  toApiKey
} from "./ApiKeys/rows.ts"
import {
  expiryWithin,
  invalid,
  type KeyLimits,
  limitsIn,
  networksWithin,
  requireGivable,
  requireRightsOf,
  requestedScopes,
  scopesOf
} from "./ApiKeys/keyRights.ts"
import { makeKeyChanges } from "./ApiKeys/changes.ts"
import { makeKeyUses } from "./ApiKeys/KeyUses.ts"
import type { RevokeOptions } from "./ApiKeys/keyEnds.ts"
import { makeRevocation } from "./ApiKeys/revocation.ts"
import { type AuthenticateKey, invalidKey, makeVerifyKey, type VerifyKey } from "./ApiKeys/verifyKey.ts"
import { upsertConfirmed } from "./EmailAddresses.ts"
import type { KeyRef } from "./KeyRef.ts"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { Organizations } from "./Organizations.ts"
import { Revocations } from "./Revocations.ts"
import { VerificationLinks } from "./VerificationLinks.ts"
import { VerificationPolicy } from "./VerificationPolicy.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { reportQuota } from "../observability/reportQuota.ts"
import { atomic } from "../store/transaction.ts"
import { type Page, toPage } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"

export type { RevokeOptions } from "./ApiKeys/keyEnds.ts"
export { addressNotAllowed, type KeyPresentation } from "./ApiKeys/verifyKey.ts"

/** The longest line of keys in which each created the next. It bounds what verifying a key and revoking one cost. */
export const MAX_GENERATIONS = 32

/** The key that creates another. */
export type KeyMaker = Pick<Principal, "org_id" | "actor">

/** A new key and its text, which is not stored and cannot be read again. */
export interface CreatedKey {
  readonly key: ApiKey
  readonly secret: Redacted.Redacted<string>
}

/**
 * Maximum ratio of stored keys to the limit of usable ones: bounds revoked and expired keys until retention removes
 * them.
 */
const STORED_KEYS_PER_USABLE = 10

/** Creates, lists, revokes and verifies API keys. */
export class ApiKeys extends Context.Service<
  ApiKeys,
  {
    /**
     * Returns the principal of a key. A key with a typo is refused by its checksum, without a query. `admit` runs before the query for a
     * key that this replica has not verified before; if it fails, so does the verification.
     */
    readonly verify: VerifyKey
    /**
     * `verify` for a request: it must come from the key's allowed networks. Records the use of the key, and counts a refusal in
     * `AuthenticationRefusals`.
     */
    readonly authenticate: AuthenticateKey
    /** Records a use of a key that was verified by other means, such as a console session. */
    readonly recordUse: (key: KeyRef) => void
    /** Writes the recorded uses; a worker calls it every minute. Returns the number of keys. */
    readonly writeUses: Effect.Effect<number>
    /** Lists the organization's keys, by default newest first and including revoked and expired ones. */
    readonly list: (
      request: ApiKeyQuery
    ) => Effect.Effect<Page<ApiKey, KeyId>, never, Authorized<"keys.write">>
    /** One key, also a revoked or expired one. */
    readonly get: (id: KeyId) => Effect.Effect<ApiKey, NotFound, Authorized<"keys.write">>
    /**
     * A key cannot grant a scope that it does not have, nor give a group that it does not have unless it may replace the rules, which decide
     * about the approvals of a group's members; nor create a key that outlasts it or may be used from more
     * networks. The name must differ from the names of the organization's usable keys, because decisions are attributed
     * to it. The organization's usable keys have a limit; the operator's commands do not.
     */
    readonly create: (
      input: NewApiKey
    ) => Effect.Effect<
      CreatedKey,
      InsufficientScope | InvalidRequest | InvalidApiKey | LimitReached | NameInUse,
      Authorized<"keys.write">
    >
    /** Checks what `create` checks, within the caller's transaction, for a key that is to be created later. */
    readonly requireCreatable: (
      maker: KeyMaker,
      input: NewApiKey
    ) => Effect.Effect<void, InsufficientScope | InvalidRequest | InvalidApiKey | LimitReached | NameInUse>
    /**
     * `create` in the name of another key, with that key's present rights, within the caller's transaction. The owner of the address has
     * just confirmed it, by the link of an invitation.
     */
    readonly createFromInvitation: (
      maker: KeyMaker,
      input: NewApiKey,
      invitation: { readonly event_id: EventId }
    ) => Effect.Effect<
      CreatedKey,
      InsufficientScope | InvalidRequest | InvalidApiKey | LimitReached | NameInUse
    >
    /**
     * Changes the name or the email address of a usable key. The caller needs every right of the key. A changed address is
     * unverified, unless its owner has confirmed it for the organization already; if addresses must be verified, it is
     * sent a link.
     */
    readonly update: (
      id: KeyId,
      change: ApiKeyChange
    ) => Effect.Effect<
      ApiKey,
      NotFound | KeyEnded | InsufficientScope | InvalidRequest | NameInUse,
      Authorized<"keys.write">
    >
    /** Sends a link to the email address of a key, unless its owner has confirmed the address already. */
    readonly verifyEmail: (
      id: KeyId
    ) => Effect.Effect<ApiKey, NotFound | EmailNotVerifiable | RateLimited, Authorized<"keys.write">>
    /** Revokes a key. The caller needs every right of the key. Idempotent. `Revocations` states how soon the keys are refused on every replica. */
    readonly revoke: (
      id: KeyId,
      options: RevokeOptions
    ) => Effect.Effect<void, NotFound | InsufficientScope | LastAdminKey, Authorized<"keys.write">>
    /**
     * Revokes the usable keys among these leaked texts, with the keys that they created, even an organization's last
     * admin key. Other texts are ignored. Returns the number of keys that were revoked.
     */
    readonly revokeLeaked: (texts: ReadonlyArray<Redacted.Redacted>) => Effect.Effect<number>
    /**
     * Creates the first admin key of an empty database, with the provided text or a generated one. If the database has any key, nothing
     * changes and the result is none.
     */
    readonly bootstrap: (options: {
      readonly org_name: string
      readonly key: Option.Option<Redacted.Redacted<string>>
    }) => Effect.Effect<Option.Option<CreatedKey>, InvalidApiKey>
    /** For the operator's command line, which has no key. Creates the organization if it does not exist. */
    readonly createFor: (org_name: string, input: NewApiKey) => Effect.Effect<CreatedKey, InvalidRequest>
    /** `list` for the operator, by the organization's name. */
    readonly listFor: (
      org_name: string,
      request: PageRequest<KeyId>
    ) => Effect.Effect<Page<ApiKey, KeyId>, NotFound>
    /** `revoke` for the operator, by the organization's name. */
    readonly revokeFor: (
      org_name: string,
      id: KeyId,
      options: RevokeOptions
    ) => Effect.Effect<void, NotFound | LastAdminKey>
  }
>()("countersign/server/identity/ApiKeys") {
  static readonly layer = Layer.effect(
    ApiKeys,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const organizations = yield* Organizations
      const audit = yield* Audit

      const revocations = yield* Revocations
      const uses = yield* makeKeyUses(sql, clock)
      const { authenticate, verify } = yield* makeVerifyKey(sql, clock, revocations, uses)
      const { keys: maxKeys } = yield* OrganizationLimits
      const use = yield* LimitUse
      const verifiedOnly = (yield* VerificationPolicy).emails
      const links = yield* VerificationLinks

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
        const { publicId, key } = Option.isSome(provided)
          ? provided.value
          : yield* ApiKeyFormat.generateApiKey
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
            if (confirmation !== undefined)
              yield* upsertConfirmed(sql, { org_id, key_id, now, ...confirmation })
            // Beyond the limit of links the key is created nonetheless: a link can be requested later.
            else if (verifiedOnly && row.email !== null)
              yield* links.send({ org_id, key_id }, { again: false })
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
            detail:
              "A usable key of this organization has this name. Choose another, or revoke that key first."
          })
        }
        return {
          expires_at: yield* expiryWithin(requested.expires_at, maker.expires_at),
          allowed_networks: yield* networksWithin(requested.allowed_networks, maker.allowed_networks)
        }
      })

      const listOf = Effect.fn("ApiKeys.listOf")(function* (org_id: OrgId, request: ApiKeyQuery) {
        const now = yield* clock.now
        const rows = yield* Effect.orDie(listKeys(sql, org_id, request, now))
        const keys = rows.map((row) => toApiKey(row, verifiedOnly))
        return toPage(request, keys, (key) => key.id)
      })

      const getOf = Effect.fnUntraced(function* (ref: KeyRef) {
        return (yield* Effect.orDie(findListedKey(sql, ref, yield* clock.now))) ?? (yield* notFound("key"))
      })

      const { revokeLeaked, revokeOf } = makeRevocation({ sql, clock, organizations, audit, revocations })
      const changes = makeKeyChanges({ sql, clock, organizations, audit, links, verifiedOnly })

      return ApiKeys.of({
        verify,
        authenticate,
        recordUse: uses.record,
        writeUses: uses.write,
        list: Effect.fn("ApiKeys.list")(function* (request) {
          const { org_id } = yield* Authorized("keys.write")
          return yield* listOf(org_id, request)
        }),
        get: Effect.fn("ApiKeys.get")(function* (key_id) {
          const { org_id } = yield* Authorized("keys.write")
          return toApiKey(yield* getOf({ org_id, key_id }), verifiedOnly)
        }),
        create: Effect.fn("ApiKeys.create")(function* (input) {
          const principal = yield* Authorized("keys.write")
          const scopes = yield* scopesOf(input)
          return yield* make(principal.org_id, input, {
            scopes,
            created_by: principal.actor,
            limitsOf: (now) => limitByMaker(principal, input, scopes, now)
          })
        }),
        requireCreatable: Effect.fnUntraced(function* (maker, input) {
          const scopes = yield* scopesOf(input)
          yield* atomically(Effect.flatMap(clock.now, (now) => limitByMaker(maker, input, scopes, now)))
        }),
        createFromInvitation: Effect.fn("ApiKeys.createFromInvitation")(
          function* (maker, input, confirmation) {
            const scopes = yield* scopesOf(input)
            return yield* make(maker.org_id, input, {
              scopes,
              confirmation,
              created_by: maker.actor,
              limitsOf: (now) => limitByMaker(maker, input, scopes, now)
            })
          }
        ),
        update: Effect.fnUntraced(function* (id, change) {
          return yield* changes.update(yield* Authorized("keys.write"), id, change)
        }),
        verifyEmail: Effect.fnUntraced(function* (id) {
          return yield* changes.verifyEmail(yield* Authorized("keys.write"), id)
        }),
        revoke: Effect.fn("ApiKeys.revoke")(function* (id, options) {
          const principal = yield* Authorized("keys.write")
          // Rights of a key only shrink, so they may be compared before the revocation.
          yield* requireRightsOf(yield* getOf({ org_id: principal.org_id, key_id: id }), principal)
          yield* revokeOf(principal, id, options)
        }),
        revokeLeaked,
        bootstrap: Effect.fn("ApiKeys.bootstrap")(function* ({ org_name, key }) {
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
        }),
        createFor: Effect.fn("ApiKeys.createFor")(function* (org_name, input) {
          const org_id = yield* organizations.ensure(org_name)
          return yield* make(org_id, input, {
            scopes: yield* scopesOf(input),
            created_by: null,
            limitsOf: (now) => limitsIn(input, now)
          })
        }),
        listFor: Effect.fn("ApiKeys.listFor")(function* (org_name, request) {
          return yield* listOf(yield* organizations.findByName(org_name), request)
        }),
        revokeFor: Effect.fn("ApiKeys.revokeFor")(function* (org_name, id, options) {
          yield* revokeOf({ org_id: yield* organizations.findByName(org_name), actor: null }, id, options)
        })
      })
    })
  )
}
