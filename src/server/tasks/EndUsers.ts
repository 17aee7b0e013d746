import { createHmac, createSecretKey, type KeyObject } from "node:crypto"
import { Context, Effect, Layer, Redacted, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { EndUser } from "../../domain/tasks/EndUser.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { type Place, SecretBox } from "../secrets/SecretBox.ts"
import { rowsOf } from "../store/rows.ts"

const PEPPER_BYTES = 32

/** Bytes of the digest in a pseudonym: enough that two users of an organization do not get the same one. */
const DIGEST_BYTES = 16

/** Peppers in memory. */
const MAX_CACHED_PEPPERS = 1_000

/** Pseudonyms of end users. */
export class EndUsers extends Context.Service<
  EndUsers,
  {
    /** The pseudonym of the end user for whom the organization has this ID. It never changes. */
    readonly pseudonym: (org_id: OrgId, end_user_id: string) => Effect.Effect<EndUser>
  }
>()("countersign/server/tasks/EndUsers") {
  static readonly layer = Layer.effect(
    EndUsers,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const box = yield* SecretBox
      // A pepper never changes, so an entry is never stale.
      const cache = new LruCache<KeyObject>({ entries: MAX_CACHED_PEPPERS, weight: MAX_CACHED_PEPPERS })

      const read = (org_id: OrgId) =>
        pepperRows.first(sql`
          SELECT pepper
          FROM end_user_peppers
          WHERE org_id = ${org_id}
        `)

      const readOrCreate = Effect.fnUntraced(function* (org_id: OrgId) {
        const place = placeOfPepper(org_id)
        const stored = yield* read(org_id)
        if (stored !== undefined) return yield* box.unseal(place, stored.pepper)
        const made = Buffer.from(SecureRandom.randomBytesUnsafe(PEPPER_BYTES)).toString("base64")
        // One of several concurrent first requests creates the pepper, and all of them use it.
        yield* sql`
          INSERT INTO end_user_peppers (org_id, pepper)
          VALUES (${org_id}, ${yield* box.seal(place, Redacted.make(made))})
          ON CONFLICT (org_id) DO NOTHING
        `
        const created = yield* read(org_id)
        return created === undefined
          ? yield* Effect.die(new Error(`The pepper of ${org_id} is missing`))
          : yield* box.unseal(place, created.pepper)
      }, Effect.orDie)

      const pepperOf = Effect.fnUntraced(function* (org_id: OrgId) {
        const cached = cache.get(org_id)
        if (cached !== undefined) return cached
        const pepper = createSecretKey(Buffer.from(Redacted.value(yield* readOrCreate(org_id)), "base64"))
        cache.set(org_id, pepper, 1)
        return pepper
      })

      return EndUsers.of({
        pseudonym: (org_id, end_user_id) =>
          Effect.map(pepperOf(org_id), (pepper) => pseudonymOf(pepper, end_user_id))
      })
    })
  )
}

const placeOfPepper = (org_id: OrgId): Place => ({
  org_id,
  table: "end_user_peppers",
  row_id: "",
  column: "pepper"
})

const pepperRows = rowsOf(Schema.Struct({ pepper: Schema.Uint8Array }))

const pseudonymOf = (pepper: KeyObject, end_user_id: string): EndUser =>
  EndUser.make(
    `eu_${createHmac("sha256", pepper)
      .update("countersign-end-user-v1\0")
      .update(end_user_id)
      .digest()
      .subarray(0, DIGEST_BYTES)
      .toString("hex")}`,
    { disableChecks: true }
  )
