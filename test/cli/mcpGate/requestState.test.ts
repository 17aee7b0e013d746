import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { makeStateSealer } from "../../../src/cli/mcpGate/requestState.ts"

const state = {
  session: "ses_1",
  step_id: "call_1",
  digest: "0".repeat(64),
  definition: "1".repeat(64),
  leg: 1,
  upstream: "its own"
}
const sealer = makeStateSealer("csk_one")

describe("the state that a client carries", () => {
  it("is read by every gate with the same key, and by no other", () => {
    const token = sealer.seal(state)
    assert.deepStrictEqual(makeStateSealer("csk_one").open(token), state)
    assert.isUndefined(makeStateSealer("csk_two").open(token))
    assert.notInclude(token, "ses_1")
  })

  it("cannot be changed", () => {
    const token = sealer.seal(state)
    const sealed = Buffer.from(token.slice(token.indexOf(".") + 1), "base64url")
    fc.assert(
      fc.property(fc.nat(sealed.byteLength - 1), fc.integer({ min: 1, max: 255 }), (place, change) => {
        const forged = Buffer.from(sealed)
        forged[place] = (forged[place] ?? 0) ^ change
        assert.isUndefined(sealer.open(`csg1.${forged.toString("base64url")}`))
      })
    )
  })

  it("is nothing but what a gate has sealed", () => {
    fc.assert(fc.property(fc.string(), (text) => assert.isUndefined(sealer.open(text))))
    fc.assert(fc.property(fc.base64String(), (text) => assert.isUndefined(sealer.open(`csg1.${text}`))))
    assert.isUndefined(sealer.open(`csg1.${"A".repeat(2_000_000)}`))
  })
})
