import { Array as Arr, Context, DateTime, Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { OwnAccess, type Person } from "../../api/console/People.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import type { InsufficientScope, LastAdminKey, NotFound } from "../../api/Problems.ts"
import { EventId, KeyId, type OrgId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import * as ApiKeyFormat from "../../domain/identity/ApiKeyFormat.ts"
import { MAX_GROUPS } from "../../domain/identity/Group.ts"
import { presetScopes, type Preset, type Scope, scopes as allScopes } from "../../domain/identity/Scope.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { type Page, toPage } from "../store/Pagination.ts"
import { atomic } from "../store/transaction.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { makeKeyEnds, type RevokeOptions } from "./ApiKeys/keyEnds.ts"
import { requireRightsOf } from "./ApiKeys/keyRights.ts"
import { findKeyWithMade, insertKey, isNameInUse } from "./ApiKeys/rows.ts"
import { Audit } from "./Audit.ts"
import type { KeyRef } from "./KeyRef.ts"
import { Organizations } from "./Organizations.ts"
import { findListedPerson, listPeople, type PersonFilter, setBlocked } from "./People/listedRows.ts"
import {
  confirmAddress,
  countPeople,
  findOpenDecisions,
  findPeopleOfSession,
  findPerson,
  findSameHuman,
  type PersonRow,
  type Subject,
  updateAccess,
  upsertPerson
} from "./People/rows.ts"
import { Revocations } from "./Revocations.ts"

/** A person as the identity provider describes them. */
export interface VerifiedPerson extends Subject {
  readonly name: string
  /** Null: the provider names none. */
  readonly email: string | null
  /** Whether the provider has verified the address. */
  readonly isEmailVerified: boolean
  /** The groups of the provider. */
  readonly groups: ReadonlyArray<string>
}

/** A rule that gives members of a group of the identity provider access to an organization. */
export interface GroupAccess {
  readonly organization: string
  /** Undefined: everyone. */
  readonly group?: string
  readonly preset: Preset
  readonly groups?: ReadonlyArray<string>
}

/** The rights of a person in one organization. */
export interface Access {
  readonly preset: Preset | null
  readonly scopes: ReadonlyArray<Scope>
  readonly groups: ReadonlyArray<string>
}

/** The result of a sign-in. */
export type Admission =
  /** The person may act in the organization. */
  | { readonly _tag: "Admitted"; readonly ref: KeyRef; readonly name: string }
  /** The person has access to several organizations and must choose one. */
  | { readonly _tag: "Choose"; readonly organizations: ReadonlyArray<string> }
  /** The person has access to none, or not to the chosen one. */
  | { readonly _tag: "NoAccess" }
  /** The organization has `MAX_PEOPLE` already. */
  | { readonly _tag: "Full" }
  /** An administrator of the organization has blocked the person. */
  | { readonly _tag: "Blocked" }

/** The most people of one organization. */
export const MAX_PEOPLE = 10_000

/**
 * How long a person who does not sign in again is sent email and counts as a member of groups. Rights are read at each sign-in, so the
 * service does not notice otherwise that someone has left.
 */
export const ACCESS_LIFETIME: Duration.Duration = Duration.days(30)

const MAX_NAME_LENGTH = 200

/** The access of a person to each organization: the union of the rules of their groups. */
export const accessOf = (
  rules: ReadonlyArray<GroupAccess>,
  groups: ReadonlyArray<string>
): ReadonlyMap<string, Access> => {
  const given = rules.filter(({ group }) => group === undefined || groups.includes(group))
  const byOrganization = Map.groupBy(given, ({ organization }) => organization)
  return new Map(
    Array.from(byOrganization, ([organization, matching]): [string, Access] => {
      const presets = Arr.dedupe(matching.map(({ preset }) => preset))
      const [first] = presets
      return [
        organization,
        {
          // With one preset the person also gets the additions of later versions to it.
          preset: first !== undefined && presets.length === 1 ? first : null,
          scopes: allScopes.filter((scope) => presets.some((preset) => presetScopes(preset).includes(scope))),
          groups: Arr.dedupe(matching.flatMap((rule) => rule.groups ?? [])).slice(0, MAX_GROUPS)
        }
      ]
    })
  )
}

/** People who sign in with an identity provider. Each is an identity of an organization, as a key is. */
export class People extends Context.Service<
  People,
  {
    /**
     * Creates or updates the person's identity in the organization that they chose, or in the only one that they have access to, and ends
     * their access to the organizations that no rule gives any more.
     */
    readonly admit: (
      person: VerifiedPerson,
      options: {
        readonly rules: ReadonlyArray<GroupAccess>
        /** The organization's name; undefined: none was chosen. */
        readonly organization: string | undefined
      }
    ) => Effect.Effect<Admission>
    /** Lists the people of the organization, last created first. */
    readonly list: (
      request: PageRequest<KeyId> & PersonFilter
    ) => Effect.Effect<Page<Person, KeyId>, never, Authorized<"keys.write">>
    readonly get: (id: KeyId) => Effect.Effect<Person, NotFound, Authorized<"keys.write">>
    /**
     * Ends the access of a person of whom the caller has every right and, unless they are kept, the keys that the person created, and refuses
     * later sign-ins. Open streams end as a revoked key's do. Their decisions stay valid. Idempotent.
     */
    readonly block: (
      id: KeyId,
      options: RevokeOptions
    ) => Effect.Effect<
      Person,
      NotFound | OwnAccess | InsufficientScope | LastAdminKey,
      Authorized<"keys.write">
    >
    /** Lets a person sign in again who did not create the caller's key. Idempotent. */
    readonly unblock: (
      id: KeyId
    ) => Effect.Effect<Person, NotFound | OwnAccess | InsufficientScope, Authorized<"keys.write">>
    /** The identities that a logout at the provider concerns: of a subject, one for each organization, or of a session of the provider. */
    readonly identitiesOf: (logout: {
      readonly issuer: string
      readonly subject: string | undefined
      readonly session: string | undefined
    }) => Effect.Effect<ReadonlyArray<KeyRef & { readonly name: string }>>
  }
>()("countersign/server/identity/People") {
  static readonly layer = Layer.effect(
    People,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const organizations = yield* Organizations
      const audit = yield* Audit
      const revocations = yield* Revocations

      const findOrganization = (name: string) =>
        organizations.findByName(name).pipe(
          Effect.map((org_id) => ({ name, org_id })),
          Effect.option
        )

      const keyEnds = makeKeyEnds({ sql, audit, revocations })

      /** The effects of an end of access, for the audit log: revoked keys, and decisions that stay valid. */
      const effects = Effect.fnUntraced(function* (ref: KeyRef, ended: ReadonlyArray<KeyId>) {
        const open = yield* findOpenDecisions(sql, ref.org_id, Arr.dedupe([ref.key_id, ...ended]))
        return {
          revoked_keys: ended.filter((key) => key !== ref.key_id).length,
          ...(open.length === 0 ? {} : { valid_decisions: open })
        }
      })

      /** Ends the access to organizations that no rule gives. */
      const endOthers = Effect.fnUntraced(function* (
        known: ReadonlyArray<PersonRow>,
        allowed: ReadonlySet<OrgId>,
        now: Timestamp
      ) {
        for (const row of known) {
          if (allowed.has(row.org_id) || row.revoked_at !== null) continue
          const author = { org_id: row.org_id, actor: { id: row.key_id, name: row.name } }
          const end = { made_keys: "revoke", reason: "access_ended" } as const
          const ended = yield* Effect.orDie(keyEnds.end(author, row.key_id, end, now))
          yield* audit.record(author, "person.access_ended", row.key_id, yield* effects(row, ended))
        }
      })

      /** The name to show: with the address if another person has the name, because decisions are attributed by it. */
      const nameOf = Effect.fnUntraced(function* (
        person: VerifiedPerson,
        org_id: OrgId,
        now: Timestamp,
        self: KeyId | undefined
      ) {
        const candidates = [person.name, `${person.name} (${person.email ?? person.subject})`, person.subject]
        for (const candidate of candidates) {
          const name = candidate.slice(0, MAX_NAME_LENGTH)
          if (!(yield* isNameInUse(sql, org_id, name, now, self))) return name
        }
        return `${person.subject.slice(0, 100)} (${self ?? "new"})`
      })

      const admitTo = Effect.fnUntraced(function* (
        org_id: OrgId,
        person: VerifiedPerson,
        access: Access,
        known: PersonRow | undefined,
        now: Timestamp
      ): Effect.fn.Return<Admission, never> {
        const key_id = known?.key_id ?? (yield* KeyId.generate)
        const ref: KeyRef = { org_id, key_id }
        const name = yield* Effect.orDie(nameOf(person, org_id, now, known?.key_id))
        const expires_at = DateTime.addDuration(now, ACCESS_LIFETIME)
        const actor = { id: key_id, name }
        const rights = { preset: access.preset, groups: access.groups }
        if (known === undefined) {
          if ((yield* Effect.orDie(countPeople(sql, org_id, MAX_PEOPLE))) >= MAX_PEOPLE)
            return { _tag: "Full" }
          // The text of this key is forgotten here, so no request can authenticate by it.
          const { key, publicId } = yield* ApiKeyFormat.generateApiKey
          yield* Effect.orDie(
            insertKey(
              sql,
              {
                ...ref,
                ...rights,
                public_id: publicId,
                name,
                scopes: access.scopes,
                email: person.email,
                created_at: now,
                created_by_id: null,
                created_by_name: null,
                expires_at,
                revoked_at: null,
                revocation_reason: null,
                allowed_networks: null
              },
              ApiKeyFormat.apiKeyDigest(key),
              access.preset !== null
            )
          )
          yield* audit.record({ org_id, actor }, "person.created", key_id, {
            ...rights,
            scopes: access.scopes
          })
        } else if (known.blocked_at !== null) {
          return { _tag: "Blocked" }
        } else {
          const scopes = access.preset === null ? access.scopes : null
          const before = JSON.stringify([known.preset, known.scopes, known.groups])
          const isChanged =
            before !== JSON.stringify([rights.preset, scopes, rights.groups]) || known.revoked_at !== null
          const rights_changed_at = isChanged ? now : null
          yield* Effect.orDie(
            updateAccess(sql, ref, {
              ...rights,
              name,
              scopes,
              email: person.email,
              expires_at,
              rights_changed_at
            })
          )
          if (isChanged) {
            yield* audit.record({ org_id, actor }, "person.access_changed", key_id, {
              ...rights,
              scopes: access.scopes
            })
            yield* Effect.orDie(keyEnds.reduceMade({ org_id, actor }, ref, access, now))
            yield* sql.afterCommit(revocations.publish(key_id))
          }
        }
        yield* Effect.orDie(upsertPerson(sql, ref, person, now))
        if (person.isEmailVerified) {
          yield* Effect.orDie(confirmAddress(sql, { ...ref, event_id: yield* EventId.generate }, now))
        }
        return { _tag: "Admitted", ref, name }
      })

      const read = Effect.fnUntraced(function* (ref: KeyRef) {
        const person = yield* Effect.orDie(findListedPerson(sql, ref, yield* clock.now))
        return person ?? (yield* notFound("person"))
      })

      /** Runs a change of a person of whom the caller has every right, serialized with sign-ins, and returns the person as they are then. */
      const change = <E>(
        principal: Principal,
        key_id: KeyId,
        run: (person: Person, ref: KeyRef, now: Timestamp) => Effect.Effect<void, E>
      ) => {
        const ref: KeyRef = { org_id: principal.org_id, key_id }
        return atomically(
          Effect.gen(function* () {
            yield* organizations.lockForUpdate(ref.org_id)
            const person = yield* read(ref)
            const line = yield* Effect.orDie(findKeyWithMade(sql, ref))
            const rights = line.find((one) => one.key_id === key_id)
            if (rights !== undefined) yield* requireRightsOf(rights, principal)
            yield* run(person, ref, yield* clock.now)
            return yield* read(ref)
          })
        )
      }

      return People.of({
        list: Effect.fn("People.list")(function* (request) {
          const { org_id } = yield* Authorized("keys.write")
          return toPage(request, yield* listPeople(sql, org_id, request, yield* clock.now), ({ id }) => id)
        }, Effect.orDie),
        get: Effect.fn("People.get")(function* (key_id) {
          const { org_id } = yield* Authorized("keys.write")
          return yield* read({ org_id, key_id })
        }),
        block: Effect.fn("People.block")(function* (id, { made_keys }) {
          const principal = yield* Authorized("keys.write")
          if (principal.actor.id === id) {
            return yield* new OwnAccess({ detail: "Ask another administrator to block you." })
          }
          return yield* change(
            principal,
            id,
            Effect.fnUntraced(function* ({ status }, ref, now) {
              // Unblocking leaves this: access comes with the next sign-in, by the groups of that time.
              const ended = yield* keyEnds
                .end(principal, id, { made_keys, reason: "requested" }, now)
                .pipe(Effect.catchTag("SqlError", Effect.die))
              if (status === "blocked" && ended.length === 0) return
              yield* Effect.orDie(setBlocked(sql, ref, { at: now, by: principal.actor.name }))
              yield* audit.record(principal, "person.blocked", id, {
                made_keys,
                ...(yield* effects(ref, ended))
              })
            })
          )
        }),
        unblock: Effect.fn("People.unblock")(function* (id) {
          const principal = yield* Authorized("keys.write")
          const ref: KeyRef = { org_id: principal.org_id, key_id: id }
          const sameHuman = new Set([id, ...(yield* Effect.orDie(findSameHuman(sql, ref)))])
          if ([principal.actor.id, ...principal.makers].some((key) => sameHuman.has(key))) {
            return yield* new OwnAccess({
              detail:
                "This person created your key, or has the verified address of it or of the key that created it. Ask an administrator with another key."
            })
          }
          return yield* change(
            principal,
            id,
            Effect.fnUntraced(function* ({ status }, ref) {
              if (status !== "blocked") return
              yield* Effect.orDie(setBlocked(sql, ref, null))
              yield* audit.record(principal, "person.unblocked", id)
            })
          )
        }),
        identitiesOf: ({ issuer, session, subject }) =>
          Effect.orDie(
            subject !== undefined
              ? findPerson(sql, { issuer, subject })
              : session !== undefined
                ? findPeopleOfSession(sql, issuer, session)
                : Effect.succeed([])
          ),
        admit: Effect.fn("People.admit")(function* (person, { organization, rules }) {
          const access = accessOf(rules, person.groups)
          // The operator may have named an organization that does not exist yet.
          const found = (yield* Effect.forEach(access.keys(), findOrganization)).flatMap(Option.toArray)
          const chosen =
            organization === undefined ? found : found.filter(({ name }) => name === organization)
          const [only] = chosen
          return yield* atomically(
            Effect.gen(function* () {
              // In one order, so that two sign-ins of a person do not wait for each other.
              const known = yield* Effect.orDie(findPerson(sql, person))
              const involved = Arr.dedupe([
                ...known.map(({ org_id }) => org_id),
                ...(only === undefined ? [] : [only.org_id])
              ])
              for (const org_id of involved.toSorted()) yield* organizations.lockForUpdate(org_id)
              const now = yield* clock.now
              const current = yield* Effect.orDie(findPerson(sql, person))
              yield* endOthers(current, new Set(found.map(({ org_id }) => org_id)), now).pipe(Effect.orDie)
              if (only === undefined) return { _tag: "NoAccess" } as const
              if (chosen.length > 1) {
                return { _tag: "Choose", organizations: chosen.map(({ name }) => name).toSorted() } as const
              }
              const rights = access.get(only.name)
              if (rights === undefined) return { _tag: "NoAccess" } as const
              const self = current.find(({ org_id }) => org_id === only.org_id)
              return yield* admitTo(only.org_id, person, rights, self, now)
            })
          )
        })
      })
    })
  )
}
