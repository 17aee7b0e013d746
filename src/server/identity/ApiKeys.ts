import { Context, DateTime, Deferred, Effect, Exit, Layer, Option, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApiKey } from "../../api/ApiKeys.ts"
import { Authorized } from "../../api/Authorization.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  InsufficientScope,
  InvalidApiKey,
  InvalidRequest,
  LastAdminKey,
  NotFound
} from "../../api/Problems.ts"
import type { ApiKey } from "../../domain/identity/ApiKey.ts"
import * as ApiKeyFormat from "../../domain/identity/ApiKeyFormat.ts"
import { KeyId, type OrgId } from "../../domain/Ids.ts"
import type { Actor, Principal } from "../../domain/identity/Principal.ts"
import { formatTimestamp } from "../../domain/Time.ts"
import { presetScopes, type Scope, scopes as allScopes } from "../../domain/identity/Scope.ts"
import { Audit, type Author } from "./Audit.ts"
import { makeVerifiedKeyCache } from "./ApiKeys/VerifiedKeyCache.ts"
import {
  decodeKey,
  findKey,
  insertKey,
  listKeys,
  revokeKey,
  usableAdminKeys,
  type KeyRow,
  type VerifiedKey
} from "./ApiKeys/rows.ts"
import { Organizations } from "./Organizations.ts"
import { afterCommit, atomic } from "../store/Database/transaction.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { type Page, toPage, rowLimit } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** A key and, this once, its text. */
export interface CreatedKey {
  readonly key: ApiKey
  readonly secret: Redacted.Redacted<string>
}

/** Makes, lists, revokes and checks API keys. */
export class ApiKeys extends Context.Service<
  ApiKeys,
  {
    /**
     * Whom a key stands for. Typos are refused without asking the store. `admit` is run before the store is asked for a key that this
     * process does not know to be one; where it fails, that is the answer.
     */
    readonly verify: <E = never, R = never>(
      key: Redacted.Redacted<string>,
      admit?: Effect.Effect<void, E, R>
    ) => Effect.Effect<Principal, InvalidApiKey | E, R>
    readonly list: (
      request: PageRequest<KeyId>
    ) => Effect.Effect<Page<ApiKey, KeyId>, never, Authorized<"keys.write">>
    /** A key cannot give a scope that it lacks. */
    readonly create: (
      input: NewApiKey
    ) => Effect.Effect<CreatedKey, InsufficientScope | InvalidRequest, Authorized<"keys.write">>
    /** Revoking again changes nothing. */
    readonly revoke: (id: KeyId) => Effect.Effect<void, NotFound | LastAdminKey, Authorized<"keys.write">>
    /**
     * The first admin key of a store that has none: the given one, else a new one. None where the store has a key: then
     * nothing is done.
     */
    readonly bootstrap: (options: {
      readonly org_name: string
      readonly key: Option.Option<Redacted.Redacted<string>>
    }) => Effect.Effect<Option.Option<CreatedKey>, InvalidApiKey>
    /** For the operator's command line, which needs no key: the organization is made where there is none of that name. */
    readonly createFor: (org_name: string, input: NewApiKey) => Effect.Effect<CreatedKey, InvalidRequest>
    readonly listFor: (
      org_name: string,
      request: PageRequest<KeyId>
    ) => Effect.Effect<Page<ApiKey, KeyId>, NotFound>
    readonly revokeFor: (org_name: string, id: KeyId) => Effect.Effect<void, NotFound | LastAdminKey>
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

      const scope = yield* Effect.scope
      const believed = makeVerifiedKeyCache()

      const usable = ({ expires_at, principal, revoked_at }: VerifiedKey) => {
        if (revoked_at !== null) return refused("revoked")
        if (expires_at === null) return Effect.succeed(principal)
        return Effect.flatMap(clock.now, (now) =>
          expires_at <= DateTime.toEpochMillis(now) ? refused("expired") : Effect.succeed(principal)
        )
      }

      /** What the store is being asked for. */
      const underWay = new Map<string, Deferred.Deferred<VerifiedKey | null>>()

      /** Asks the store for a key beside the request that brought it, which may go away while others wait for the same answer. */
      const ask = (text: string, { key, publicId }: ApiKeyFormat.ParsedApiKey) =>
        Effect.uninterruptible(
          Effect.clockWith((machine) => {
            const answer = Deferred.makeUnsafe<VerifiedKey | null>()
            underWay.set(text, answer)
            // Read before the store is asked: an answer that is long under way is believed the shorter for it.
            const now = monotonicMillis(machine)
            return findKey(sql, publicId, ApiKeyFormat.apiKeyDigest(key)).pipe(
              Effect.orDie,
              Effect.onExit((exit) =>
                Effect.sync(() => {
                  underWay.delete(text)
                  if (Exit.isSuccess(exit) && exit.value !== null) believed.remember(text, exit.value, now)
                  Deferred.doneUnsafe(answer, exit)
                })
              ),
              Effect.forkIn(scope),
              Effect.as(answer)
            )
          })
        )

      const look = Effect.fnUntraced(function* <E, R>(
        text: string,
        admit: Effect.Effect<void, E, R> | undefined
      ) {
        const parsed = ApiKeyFormat.parseApiKey(text)
        if (Result.isFailure(parsed)) return yield* refused(parsed.failure)
        // Whoever floods with keys that there are none of does not hold up those in use. However many requests bring a key at once,
        // one of them is admitted, and the others wait for its answer: what was admitted once is asked for once.
        if (admit !== undefined && !believed.wasVerified(text) && !underWay.has(text)) yield* admit
        const known = yield* Deferred.await(underWay.get(text) ?? (yield* ask(text, parsed.success)))
        return known === null ? yield* refused("unknown") : yield* usable(known)
      })

      // Plain functions: this runs in front of every operation.
      const verify = <E = never, R = never>(
        key: Redacted.Redacted<string>,
        admit?: Effect.Effect<void, E, R>
      ): Effect.Effect<Principal, InvalidApiKey | E, R> =>
        Effect.clockWith((machine) => {
          const text = Redacted.value(key)
          const known = believed.get(text, monotonicMillis(machine))
          return known === undefined ? look(text, admit) : usable(known)
        })

      const make = Effect.fn("ApiKeys.make")(function* (
        org_id: OrgId,
        input: NewApiKey,
        created_by: Actor | null,
        given: Option.Option<ApiKeyFormat.ParsedApiKey>
      ) {
        const now = yield* clock.now
        const scopes = yield* scopesOf(input)
        const expires_at = input.expires_at ?? null
        if (expires_at !== null && DateTime.isLessThanOrEqualTo(expires_at, now)) {
          return yield* wrong("#/expires_at", "Expected a time to come")
        }
        const { publicId, key } = Option.isSome(given) ? given.value : yield* ApiKeyFormat.generateApiKey
        const row: KeyRow = {
          org_id,
          key_id: yield* KeyId.generate,
          public_id: publicId,
          name: input.name,
          preset: input.preset ?? null,
          scopes,
          email: input.email ?? null,
          created_at: now,
          created_by_id: created_by?.id ?? null,
          created_by_name: created_by?.name ?? null,
          expires_at,
          revoked_at: null
        }
        yield* atomically(
          Effect.gen(function* () {
            yield* insertKey(sql, row, ApiKeyFormat.apiKeyDigest(key), input.scopes === undefined)
            yield* audit.record({ org_id, actor: created_by }, "key.created", row.key_id, {
              name: row.name,
              preset: row.preset,
              scopes,
              expires_at: expires_at === null ? null : formatTimestamp(expires_at)
            })
          })
        )
        return { key: decodeKey(row), secret: key }
      })

      const listOf = Effect.fn("ApiKeys.listOf")(function* (org_id: OrgId, request: PageRequest<KeyId>) {
        const rows = yield* Effect.orDie(listKeys(sql, org_id, rowLimit(request), request.cursor))
        return toPage(request, rows.map(decodeKey), (key) => key.id)
      })

      const revokeOf = Effect.fn("ApiKeys.revokeOf")(function* (author: Author, id: KeyId) {
        const { org_id } = author
        const now = yield* clock.now
        yield* atomically(
          Effect.gen(function* () {
            // One revocation of an organization at a time, or two admins could revoke each other.
            yield* organizations.lockForUpdate(org_id)
            const admins = yield* usableAdminKeys(sql, org_id, allScopes, now)
            if (admins.length === 1 && admins[0] === id) {
              return yield* new LastAdminKey({ detail: "Make another admin key first, then revoke this one" })
            }
            const revoked = yield* revokeKey(sql, org_id, id, now)
            if (revoked === undefined) return yield* noKey
            if (revoked) yield* audit.record(author, "key.revoked", id)
            yield* afterCommit(Effect.sync(believed.invalidateAll))
          })
        )
      })

      return ApiKeys.of({
        verify,
        list: Effect.fn("ApiKeys.list")(function* (request) {
          const { org_id } = yield* Authorized("keys.write")
          return yield* listOf(org_id, request)
        }),
        create: Effect.fn("ApiKeys.create")(function* (input) {
          const principal = yield* Authorized("keys.write")
          const lacking = (yield* scopesOf(input)).find((scope) => !principal.scopes.has(scope))
          if (lacking !== undefined) {
            const detail = `A key cannot give ${lacking}, which it lacks`
            const pointer = input.scopes === undefined ? "#/preset" : "#/scopes"
            return yield* new InsufficientScope({
              detail,
              required_scope: lacking,
              errors: [{ pointer, detail }]
            })
          }
          return yield* make(principal.org_id, input, principal.actor, Option.none())
        }),
        revoke: Effect.fn("ApiKeys.revoke")(function* (id) {
          yield* revokeOf(yield* Authorized("keys.write"), id)
        }),
        bootstrap: Effect.fn("ApiKeys.bootstrap")(function* ({ org_name, key }) {
          const given = Option.map(key, (text) => ApiKeyFormat.parseApiKey(Redacted.value(text)))
          if (Option.isSome(given) && Result.isFailure(given.value))
            return yield* refused(given.value.failure)
          return yield* atomically(
            Effect.gen(function* () {
              // Two processes that start at once on an empty store make one key between them.
              yield* organizations.lockAll
              if (yield* organizations.hasAnyKey) return Option.none()
              const org_id = yield* organizations.ensure(org_name)
              const created = yield* make(
                org_id,
                { name: "first admin key", preset: "admin" },
                null,
                Option.flatMap(given, Result.getSuccess)
              )
              return Option.some(created)
            })
          ).pipe(Effect.catchTag("INVALID_REQUEST", Effect.die))
        }),
        createFor: Effect.fn("ApiKeys.createFor")(function* (org_name, input) {
          const org_id = yield* organizations.ensure(org_name)
          return yield* make(org_id, input, null, Option.none())
        }),
        listFor: Effect.fn("ApiKeys.listFor")(function* (org_name, request) {
          return yield* listOf(yield* organizations.findByName(org_name), request)
        }),
        revokeFor: Effect.fn("ApiKeys.revokeFor")(function* (org_name, id) {
          yield* revokeOf({ org_id: yield* organizations.findByName(org_name), actor: null }, id)
        })
      })
    })
  )
}

const faults = {
  malformed: "The key is not of the form csk_…",
  checksum: "The key has a typo: its checksum does not match",
  unknown: "There is no such key",
  revoked: "The key was revoked",
  expired: "The key has expired"
}

const refused = (fault: keyof typeof faults) => Effect.fail(new InvalidApiKey({ detail: faults[fault] }))

const noKey = Effect.fail(new NotFound({ detail: "There is no such key in this organization" }))

const wrong = (pointer: string, detail: string) =>
  Effect.fail(new InvalidRequest({ detail, errors: [{ pointer, detail }] }))

/** What a new key may do: the scopes named, which a preset beside them must hold, else the preset's. */
const scopesOf = (input: NewApiKey): Effect.Effect<ReadonlyArray<Scope>, InvalidRequest> => {
  const preset = input.preset === undefined ? undefined : presetScopes(input.preset)
  if (input.scopes === undefined) {
    return preset === undefined
      ? wrong("#/scopes", "Name a preset or at least one scope")
      : Effect.succeed(preset)
  }
  const foreign = input.scopes.find((scope) => preset !== undefined && !preset.includes(scope))
  return foreign === undefined
    ? Effect.succeed([...new Set(input.scopes)])
    : wrong("#/scopes", `The preset does not hold ${foreign}`)
}
