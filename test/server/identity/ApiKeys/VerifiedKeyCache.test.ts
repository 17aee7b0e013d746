import { assert, describe, it } from "@effect/vitest"
import { makeVerifiedKeyCache } from "../../../../src/server/identity/ApiKeys/VerifiedKeyCache.ts"
import type { VerifiedKey } from "../../../../src/server/identity/ApiKeys/rows.ts"
import { KeyId, OrgId } from "../../../../src/domain/Ids.ts"

const key: VerifiedKey = {
  principal: {
    org_id: OrgId.make(`org_${"0".repeat(32)}`),
    actor: { id: KeyId.make(`key_${"0".repeat(32)}`), name: "agent" },
    scopes: new Set(),
    groups: [],
    keyMakers: [],
    makers: []
  },
  expires_at: null,
  revoked_at: null,
  networks: null
}

const SECOND = 1_000
const MINUTE = 60 * SECOND

describe("VerifiedKeyCache", () => {
  it("a key is used for five seconds after it was verified, and not after it was invalidated", () => {
    const cache = makeVerifiedKeyCache()
    cache.set("one", key, 0)
    assert.strictEqual(cache.get("one", 5 * SECOND - 1), key)
    assert.isUndefined(cache.get("one", 5 * SECOND))
    cache.set("one", key, MINUTE)
    cache.invalidate(new Set([key.principal.actor.id]))
    assert.isUndefined(cache.get("one", MINUTE))
    assert.isTrue(cache.wasVerified("one"))
  })

  it("a key that was not verified for ten minutes is removed when another key is verified", () => {
    const cache = makeVerifiedKeyCache()
    cache.set("idle", key, 0)
    cache.set("in use", key, MINUTE)
    cache.set("in use", key, 9 * MINUTE)
    assert.isTrue(cache.wasVerified("idle"))
    cache.set("other", key, 10 * MINUTE)
    assert.isFalse(cache.wasVerified("idle"))
    assert.isTrue(cache.wasVerified("in use"))
  })

  it("a key is removed after ten thousand other keys were verified", () => {
    const cache = makeVerifiedKeyCache()
    for (let index = 0; index <= 10_000; index++) cache.set(String(index), key, 0)
    assert.isFalse(cache.wasVerified("0"))
    assert.isTrue(cache.wasVerified("1"))
    assert.isTrue(cache.wasVerified("10000"))
  })
})
