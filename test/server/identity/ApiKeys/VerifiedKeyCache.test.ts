import { assert, describe, it } from "@effect/vitest"
import { makeVerifiedKeyCache } from "../../../../src/server/identity/ApiKeys/VerifiedKeyCache.ts"
import type { VerifiedKey } from "../../../../src/server/identity/ApiKeys/rows.ts"
import { KeyId, OrgId } from "../../../../src/domain/Ids.ts"

const key: VerifiedKey = {
  principal: {
    org_id: OrgId.make(`org_${"0".repeat(32)}`),
    actor: { id: KeyId.make(`key_${"0".repeat(32)}`), name: "agent" },
    scopes: new Set()
  },
  expires_at: null,
  revoked_at: null
}

const SECOND = 1_000
const MINUTE = 60 * SECOND

describe("a key that was checked", () => {
  it("is believed for five seconds, and not after a doubt", () => {
    const believed = makeVerifiedKeyCache()
    believed.remember("one", key, 0)
    assert.strictEqual(believed.get("one", 5 * SECOND - 1), key)
    assert.isUndefined(believed.get("one", 5 * SECOND))
    believed.remember("one", key, MINUTE)
    believed.invalidateAll()
    assert.isUndefined(believed.get("one", MINUTE))
    assert.isTrue(believed.wasVerified("one"))
  })

  it("is forgotten when others are checked and it was not for ten minutes", () => {
    const believed = makeVerifiedKeyCache()
    believed.remember("idle", key, 0)
    believed.remember("in use", key, MINUTE)
    believed.remember("in use", key, 9 * MINUTE)
    assert.isTrue(believed.wasVerified("idle"))
    believed.remember("other", key, 10 * MINUTE)
    assert.isFalse(believed.wasVerified("idle"))
    assert.isTrue(believed.wasVerified("in use"))
  })

  it("is forgotten when ten thousand others were checked since", () => {
    const believed = makeVerifiedKeyCache()
    for (let index = 0; index <= 10_000; index++) believed.remember(String(index), key, 0)
    assert.isFalse(believed.wasVerified("0"))
    assert.isTrue(believed.wasVerified("1"))
    assert.isTrue(believed.wasVerified("10000"))
  })
})
