import { assert, describe, it } from "vitest"
import { LoopShares } from "../../../src/server/admission/LoopShares.ts"
import { virtualTime } from "../../support/virtualLoopTime.ts"

/**
 * Runs a second in periods of 10 ms, in each of which these keys use the event loop for so many milliseconds, and
 * returns the shares.
 */
const afterSecond = (uses: Readonly<Record<string, number>>) => {
  const { pause, time, work } = virtualTime()
  const shares = new LoopShares(time)
  for (let end = 10; end <= 1_000; end += 10) {
    for (const [key, millis] of Object.entries(uses)) {
      work(millis)
      shares.charge(key, millis)
    }
    pause(end - time.now())
  }
  return { shares, pause }
}

describe("LoopShares", () => {
  it("a key owes nothing while the event loop is less than a fifth busy", () => {
    const { shares } = afterSecond({ a: 1.5, b: 0.4 })
    assert.isTrue(shares.hasOthers("a"))
    assert.isFalse(shares.isContended("a"))
    shares.charge("a", 20)
    assert.strictEqual(shares.debt("a"), 0)
  })

  it("while the event loop is more than two fifths busy, a key owes three times what it is charged", () => {
    const { shares } = afterSecond({ b: 1, a: 4 })
    assert.isTrue(shares.isContended("a"))
    const before = shares.debt("a")
    assert.isAbove(before, 20)
    shares.charge("a", 20)
    // The 20 ms themselves pay nothing off.
    assert.approximately(shares.debt("a") - before, 20 + 3 * 20, 0.001)
    shares.charge("c", 20)
    assert.approximately(shares.debt("c"), 3 * 20, 0.001)
  })

  it("between a fifth and two fifths, the debt grows with the utilization", () => {
    const debts = [2, 2.6, 3.6].map((millis) => {
      const { shares } = afterSecond({ b: 0.2, a: millis })
      const before = shares.debt("a")
      shares.charge("a", 1)
      return shares.debt("a") - before
    })
    assert.isAbove(debts[0]!, 0)
    assert.isAbove(debts[1]!, debts[0]!)
    assert.isAbove(debts[2]!, debts[1]!)
    assert.isBelow(debts[2]!, 4)
  })

  it("a busy event loop that no other key uses is not contended", () => {
    const { shares } = afterSecond({ a: 9 })
    assert.isFalse(shares.hasOthers("a"))
    assert.isFalse(shares.isContended("a"))
  })

  it("one small request of another key per second throttles nobody", () => {
    const { shares } = afterSecond({ a: 9 })
    shares.charge("probe", 0.5)
    assert.isFalse(shares.isContended("a"))
    assert.isTrue(shares.isContended("probe"))
  })

  it("a debt ends with the contention", () => {
    const { pause, shares } = afterSecond({ b: 1, a: 9 })
    shares.charge("a", 500)
    assert.isAbove(shares.debt("a"), 1_000)
    pause(500)
    assert.strictEqual(shares.debt("a"), 0)
  })

  it("use is forgotten within seconds, and a debt has a limit", () => {
    const { pause, shares } = afterSecond({ b: 1, a: 9 })
    for (let count = 0; count < 100; count++) shares.charge("a", 50)
    assert.isAtMost(shares.debt("a"), 2_000)
    pause(20_000)
    assert.isFalse(shares.hasOthers("b"))
  })
})
