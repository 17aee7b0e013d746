/** What becomes of the keys that a key or a person created when that one ends or loses rights. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { MadeKeys } from "../../../api/ApiKeys.ts"
import { LastAdminKey } from "../../../api/Problems.ts"
import type { RevocationReason } from "../../../domain/identity/ApiKey.ts"
import type { KeyId } from "../../../domain/Ids.ts"
import { type Scope, scopes as allScopes } from "../../../domain/identity/Scope.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { Audit, Author } from "../Audit.ts"
import type { KeyRef } from "../KeyRef.ts"
import type { Revocations } from "../Revocations.ts"
import { findAdminKeys, findKeyWithMade, revokeKeys, updateRights } from "./rows.ts"

/** Dependencies. */
export interface KeyEndDeps {
  readonly sql: SqlClient.SqlClient
  readonly audit: Audit["Service"]
  readonly revocations: Revocations["Service"]
}

/** What becomes of the keys that an ended key or person created. */
export interface RevokeOptions {
  /** `revoke` also revokes the keys that it created, and the keys that those created in turn; `keep` leaves them usable. */
  readonly made_keys: MadeKeys
}

/** Keys and people, as they were read. */
type Line = Effect.Success<ReturnType<typeof findKeyWithMade>>

/** Both run within the caller's transaction, which has the organization's lock: a key that ends must not leave a new key behind. */
export const makeKeyEnds = ({ audit, revocations, sql }: KeyEndDeps) => {
  const revoke = Effect.fnUntraced(function* (
    author: Author,
    line: Line,
    now: Timestamp,
    reason: RevocationReason,
    /** The key or person that they end with. */
    head: KeyId
  ) {
    const keys = line.map(({ key_id }) => key_id)
    yield* revokeKeys(sql, author.org_id, keys, now, reason)
    for (const { is_person, key_id } of line) {
      // The end of a person has an entry of its own.
      if (is_person) continue
      yield* audit.record(author, "key.revoked", key_id, {
        ...(reason === "requested" ? {} : { reason }),
        ...(key_id === head ? {} : { revoked_with: head })
      })
    }
  })

  const publish = (keys: ReadonlyArray<KeyId>) =>
    sql.afterCommit(Effect.forEach(keys, (key) => revocations.publish(key), { discard: true }))

  return {
    /** Ends a key or a person. Returns the keys that have ended: itself, unless it had ended before, and keys that it created. */
    end: Effect.fnUntraced(function* (
      author: Author,
      id: KeyId,
      { made_keys, reason }: RevokeOptions & { readonly reason: RevocationReason },
      now: Timestamp
    ) {
      const { org_id } = author
      const line = yield* findKeyWithMade(sql, { org_id, key_id: id })
      const ended = line.filter(({ key_id }) => made_keys === "revoke" || key_id === id)
      const usable = ended.filter(({ revoked }) => !revoked)
      const keys = usable.map(({ key_id }) => key_id)
      const { keepsAdmin, revokesAdmin } = yield* findAdminKeys(sql, org_id, allScopes, keys, now)
      // Neither the finder of a leaked key nor the identity provider can be asked: the operator can create another admin key.
      if (reason === "requested" && revokesAdmin && !keepsAdmin) {
        return yield* new LastAdminKey({
          detail:
            keys.length > 1
              ? "This would revoke the organization's last usable admin key. Create another admin key first, or keep the created keys with `made_keys=keep`."
              : "This is the organization's last usable admin key. Create another admin key before you revoke it."
        })
      }
      yield* revoke(author, usable, now, reason, id)
      yield* publish(ended.map(({ key_id }) => key_id))
      return keys
    }),

    /** Takes rights that a person no longer has, or may no longer give, from the keys that the person created. A key that is left without a scope is revoked. */
    reduceMade: Effect.fnUntraced(function* (
      author: Author,
      { key_id: maker, org_id }: KeyRef,
      rights: { readonly scopes: ReadonlyArray<Scope>; readonly groups: ReadonlyArray<string> },
      now: Timestamp
    ) {
      // As in `mayGiveGroup`.
      const givesAnyGroup = rights.scopes.includes("rules.write")
      for (const made of yield* findKeyWithMade(sql, { org_id, key_id: maker })) {
        if (made.key_id === maker || made.revoked) continue
        const scopes = made.scopes.filter((scope) => rights.scopes.includes(scope))
        const groups = made.groups.filter((group) => givesAnyGroup || rights.groups.includes(group))
        if (scopes.length === made.scopes.length && groups.length === made.groups.length) continue
        if (scopes.length === 0) {
          yield* revoke(author, [made], now, "access_ended", maker)
        } else {
          yield* updateRights(sql, { org_id, key_id: made.key_id }, { scopes, groups }, now)
          yield* audit.record(author, "key.rights_reduced", made.key_id, {
            scopes,
            ...(groups.length === 0 ? {} : { groups }),
            reduced_with: maker
          })
        }
        yield* publish([made.key_id])
      }
    })
  }
}
