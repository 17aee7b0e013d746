import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { BestScores } from "../../../src/domain/tasks/BestScores.ts"

describe("BestScores", () => {
  it("chooses what the start of a full sort has, by score and then the newest, in any order of additions", () => {
    const entry = fc.record({
      ordinal: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
      score: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 4_096 }))
    })
    const entries = fc.uniqueArray(entry, { selector: ({ ordinal }) => ordinal, maxLength: 200 })
    fc.assert(
      fc.property(entries, fc.integer({ min: 1, max: 20 }), (added, limit) => {
        const best = new BestScores(limit)
        for (const { ordinal, score } of added) best.add(ordinal, score)
        const sorted = added.toSorted((a, b) => b.score - a.score || b.ordinal - a.ordinal)
        assert.deepStrictEqual(
          best.chosen(),
          sorted.slice(0, limit).map(({ ordinal }) => ordinal)
        )
      })
    )
  })
})
