import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import {
  addInterval,
  before,
  firstUncovered,
  type Intervals
} from "../../../../src/console/ui/reading/intervals.ts"

const ends = fc
  .tuple(fc.nat({ max: 400 }), fc.nat({ max: 80 }))
  .map(([from, size]) => [5 * from, 5 * (from + size)] as const)

const unite = (added: ReadonlyArray<readonly [number, number]>): Intervals =>
  added.reduce<Intervals>((all, [from, to]) => addInterval(all, from, to), [])

describe("Intervals of what was on the screen", () => {
  it("a position is covered exactly if an added interval contains it", () => {
    fc.assert(
      fc.property(fc.array(ends, { maxLength: 20 }), fc.nat({ max: 2_500 }), (added, place) => {
        const position = place + 0.5
        assert.strictEqual(
          unite(added).some(([from, to]) => from <= position && position <= to),
          added.some(([from, to]) => from <= position && position <= to)
        )
      })
    )
  })

  it("the first uncovered position is the end of what is covered from the top", () => {
    fc.assert(
      fc.property(fc.array(ends, { maxLength: 20 }), (added) => {
        const covered = (position: number) => added.some(([from, to]) => from <= position && position < to)
        let expected = 0
        while (covered(expected)) expected += 5
        assert.strictEqual(firstUncovered(unite(added), 1_000), expected >= 1_000 ? undefined : expected)
      })
    )
  })

  it("nothing after a change stays covered", () => {
    assert.deepStrictEqual(
      before(
        [
          [0, 10],
          [20, 40],
          [50, 60]
        ],
        30
      ),
      [
        [0, 10],
        [20, 30]
      ]
    )
    assert.strictEqual(firstUncovered([[2, 10]], 10), 0)
    assert.strictEqual(firstUncovered([], 10), 0)
  })
})
