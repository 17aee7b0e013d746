import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import {
  makeUnsentResponses,
  type UnsentCut,
  type UnsentLimits
} from "../../../src/server/admission/UnsentResponses.ts"

const limits: UnsentLimits = {
  bytes: 300,
  bytesPerOwner: 100,
  stalledMillis: 60_000,
  bytesPerSecond: 1_000_000
}

/** Responses within these limits, and the names of the cut ones. */
const setUp = (changed: Partial<UnsentLimits> = {}) => {
  const unsent = makeUnsentResponses({ ...limits, ...changed })
  const cuts: Array<string> = []
  const add = (owner: string, bytes: number, name = owner, limited = true) =>
    unsent.add({ owner, bytes, length: bytes, limited, cut: () => void cuts.push(name) })
  return { unsent, cuts, add }
}

describe("UnsentResponses", () => {
  it("past the limit of an organization its oldest response is cut, and no other organization's", () => {
    const { add, cuts, unsent } = setUp()
    add("b", 90, "b's")
    add("a", 60, "oldest")
    add("a", 30, "second")
    add("a", 30, "third")
    assert.deepStrictEqual(cuts, ["oldest"])
    assert.strictEqual(unsent.bytes(), 150)
  })

  it("past the limit of all organizations the one with the most gives way", () => {
    const { add, cuts } = setUp({ bytes: 150 })
    add("small", 40)
    add("large", 50, "large's first")
    add("large", 45, "large's second")
    add("small", 40)
    assert.deepStrictEqual(cuts, ["large's first"])
  })

  it("a response larger than its organization's limit is sent if it is the only one", () => {
    const { add, cuts } = setUp()
    add("a", 150, "first")
    assert.deepStrictEqual(cuts, [])
    add("a", 150, "second")
    assert.deepStrictEqual(cuts, ["first"])
  })

  it("shared bytes count for no limit", () => {
    const { add, cuts, unsent } = setUp()
    for (let count = 0; count < 10; count++) {
      unsent.add({ owner: "a", bytes: 0, length: 1_000, limited: true, cut: () => void cuts.push("shared") })
    }
    add("a", 90)
    assert.deepStrictEqual(cuts, [])
  })

  it.live("a response that is not read in the time for its length is cut", () =>
    Effect.gen(function* () {
      const { unsent } = setUp({ stalledMillis: 10 })
      const cut = yield* Deferred.make<UnsentCut>()
      const finish = (reason: UnsentCut) => Deferred.doneUnsafe(cut, Effect.succeed(reason))
      unsent.add({ owner: "a", bytes: 10, length: 10, limited: true, cut: finish })
      assert.strictEqual(yield* Deferred.await(cut), "slow")
      assert.strictEqual(unsent.bytes(), 0)
    })
  )

  it.effect("from half of its limit an organization waits until a response is read, another does not", () =>
    Effect.gen(function* () {
      const { add, unsent } = setUp()
      const release = add("a", 50)
      assert.isFalse(unsent.hasRoom("a"))
      assert.isTrue(unsent.hasRoom("b"))
      const waiting = yield* Effect.forkChild(unsent.awaitRoom("a"))
      yield* Effect.yieldNow
      assert.isUndefined(waiting.pollUnsafe())
      release()
      yield* Fiber.join(waiting)
      assert.isTrue(unsent.hasRoom("a"))
    })
  )
})
