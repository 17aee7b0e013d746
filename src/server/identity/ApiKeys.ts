import { Context, Effect, Layer, type Option, type Redacted } from "effect"
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
  type LimitReached,
  type NameInUse,
  type NotFound,
  type RateLimited
} from "../../api/Problems.ts"
import type { ApiKey } from "../../domain/identity/ApiKey.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import type { EventId, KeyId, OrgId } from "../../domain/Ids.ts"
import { Audit } from "./Audit.ts"
import { findListedKey, findMaker, listKeys, toApiKey } from "./ApiKeys/rows.ts"
import { requireRightsOf } from "./ApiKeys/keyRights.ts"
import { makeKeyChanges } from "./ApiKeys/changes.ts"
import { type KeyMaker, makeKeyCreation } from "./ApiKeys/creation.ts"
import { makeKeyUses } from "./ApiKeys/KeyUses.ts"
import type { RevokeOptions } from "./ApiKeys/keyEnds.ts"
import { makeRevocation } from "./ApiKeys/revocation.ts"
import { type AuthenticateKey, makeVerifyKey, type VerifyKey } from "./ApiKeys/verifyKey.ts"
import type { KeyRef } from "./KeyRef.ts"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { Organizations } from "./Organizations.ts"
import { Revocations } from "./Revocations.ts"
import { VerificationLinks } from "./VerificationLinks.ts"
import { VerificationPolicy } from "./VerificationPolicy.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { type Page, toPage } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"

export { type KeyMaker, MAX_GENERATIONS } from "./ApiKeys/creation.ts"
export { requireRightsOf } from "./ApiKeys/keyRights.ts"
export type { RevokeOptions } from "./ApiKeys/keyEnds.ts"
export { addressNotAllowed, type KeyPresentation } from "./ApiKeys/verifyKey.ts"

/** A new key and its text, which is not stored and cannot be read again. */
export interface CreatedKey {
  readonly key: ApiKey
  readonly secret: Redacted.Redacted<string>
}

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
    /** Refuses a caller that does not have every right of another key or person, for changes by which it could keep an admin out. */
    readonly requireRightsOfKey: (caller: Principal, id: KeyId) => Effect.Effect<void, InsufficientScope>
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
      const clock = yield* StoreClock
      const organizations = yield* Organizations
      const audit = yield* Audit

      const revocations = yield* Revocations
      const uses = yield* makeKeyUses(sql, clock)
      const { authenticate, verify } = yield* makeVerifyKey(sql, clock, revocations, uses)
      const verifiedOnly = (yield* VerificationPolicy).emails
      const links = yield* VerificationLinks

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
      const creation = makeKeyCreation({
        ...{ sql, clock, organizations, audit, links, verifiedOnly },
        maxKeys: (yield* OrganizationLimits).keys,
        use: yield* LimitUse
      })

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
          return yield* creation.createBy(yield* Authorized("keys.write"), input)
        }),
        requireCreatable: creation.requireCreatable,
        createFromInvitation: Effect.fn("ApiKeys.createFromInvitation")(creation.createBy),
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
        requireRightsOfKey: Effect.fnUntraced(function* (caller, key_id) {
          if (caller.actor.id === key_id) return
          const rights = yield* Effect.orDie(findMaker(sql, { org_id: caller.org_id, key_id }))
          if (rights !== undefined) yield* requireRightsOf(rights, caller)
        }),
        revokeLeaked,
        bootstrap: creation.bootstrap,
        createFor: creation.createFor,
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
