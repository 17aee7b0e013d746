import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import {
  deselect,
  emptySelection,
  extendTo,
  type Selection,
  selectAll,
  toggle
} from "../../../../src/console/ui/selection/Selection.ts"
import { ApprovalId } from "../../../../src/domain/Ids.ts"

const MAX = 100

const list = Array.from({ length: MAX + 20 }, () => Effect.runSync(ApprovalId.generate))

const places = ({ ids }: Selection<ApprovalId>) =>
  [...ids].map((id) => list.indexOf(id)).toSorted((left, right) => left - right)

describe("Selection", () => {
  it("toggling a row selects it, and deselects it the second time", () => {
    const one = toggle(emptySelection, list[3]!, MAX)
    assert.deepStrictEqual(places(toggle(one, list[5]!, MAX)), [3, 5])
    assert.deepStrictEqual(places(toggle(one, list[3]!, MAX)), [])
  })

  it("a range goes from the row that was toggled last to another one, in both directions", () => {
    const one = toggle(emptySelection, list[3]!, MAX)
    assert.deepStrictEqual(places(extendTo(one, list, list[5]!, MAX)), [3, 4, 5])
    assert.deepStrictEqual(
      places(extendTo(extendTo(one, list, list[5]!, MAX), list, list[1]!, MAX)),
      [1, 2, 3, 4, 5]
    )
  })

  it("a range can begin elsewhere, and without a beginning in the list it is one row", () => {
    const one = toggle(emptySelection, list[0]!, MAX)
    assert.deepStrictEqual(places(extendTo(one, list, list[9]!, MAX, list[8])), [0, 8, 9])
    assert.deepStrictEqual(places(extendTo(emptySelection, list, list[9]!, MAX)), [9])
    assert.deepStrictEqual(places(extendTo(one, list.slice(1), list[9]!, MAX)), [0, 9])
    // The target has ended meanwhile.
    assert.deepStrictEqual(places(extendTo(one, list.slice(0, 9), list[9]!, MAX)), [0])
  })

  it("a selection has at most as many rows as its action takes", () => {
    const full = extendTo(toggle(emptySelection, list[0]!, MAX), list, list.at(-1)!, MAX)
    assert.lengthOf(places(full), MAX)
    assert.deepStrictEqual(places(full).at(-1), MAX - 1)
    assert.lengthOf(places(toggle(full, list.at(-1)!, MAX)), MAX)
    // Backwards, those next to the anchor are selected.
    const back = extendTo(toggle(emptySelection, list.at(-1)!, MAX), list, list[0]!, MAX)
    assert.deepStrictEqual(places(back)[0], 20)
  })

  it("selecting all adds the rows of the list in their order, until the selection is full", () => {
    const one = toggle(emptySelection, list.at(-1)!, MAX)
    assert.deepStrictEqual(places(selectAll(one, list.slice(2, 5), MAX)), [2, 3, 4, list.length - 1])
    assert.deepStrictEqual(places(selectAll(one, list, MAX)).slice(-2), [MAX - 2, list.length - 1])
  })

  it("deselecting keeps the others", () => {
    const two = toggle(toggle(emptySelection, list[0]!, MAX), list[1]!, MAX)
    assert.deepStrictEqual(places(deselect(two, new Set([list[0]!, list[2]!]))), [1])
  })
})
