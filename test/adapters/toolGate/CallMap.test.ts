import { assert, describe, it } from "@effect/vitest"
import { CallMap } from "../../../src/adapters/toolGate/CallMap.ts"

describe("CallMap", () => {
  it("evicts the oldest value beyond 10,000, and says which", () => {
    const evicted: Array<number> = []
    const calls = new CallMap<number>((value) => evicted.push(value))
    for (let call = 0; call <= 10_000; call++) calls.set(String(call), call)
    assert.deepStrictEqual(evicted, [0])
    assert.isUndefined(calls.get("0"))
    assert.strictEqual(calls.take("1"), 1)
    calls.set("10001", 10_001)
    assert.deepStrictEqual(evicted, [0])
  })
})
