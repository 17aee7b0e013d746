import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { MAX_DECISIONS } from "../../../../../src/api/DecisionBatch.ts"
import {
  deselect,
  emptySelection,
  extendTo,
  type Selection,
  toggle
} from "../../../../../src/console/pages/approvals/batch/Selection.ts"
import { ApprovalId } from "../../../../../src/domain/Ids.ts"

const list = Array.from({ length: MAX_DECISIONS + 20 }, () => Effect.runSync(ApprovalId.generate))

const places = ({ ids }: Selection) =>
  [...ids].map((id) => list.indexOf(id)).toSorted((left, right) => left - right)

describe("Selection", () => {
  it("toggling an approval selects it, and deselects it the second time", () => {
    const one = toggle(emptySelection, list[3]!)
    assert.deepStrictEqual(places(toggle(one, list[5]!)), [3, 5])
    assert.deepStrictEqual(places(toggle(one, list[3]!)), [])
  })

  it("a range goes from the approval that was toggled last to another one, in both directions", () => {
    const one = toggle(emptySelection, list[3]!)
    assert.deepStrictEqual(places(extendTo(one, list, list[5]!)), [3, 4, 5])
    assert.deepStrictEqual(places(extendTo(extendTo(one, list, list[5]!), list, list[1]!)), [1, 2, 3, 4, 5])
  })

  it("a range can begin elsewhere, and without a beginning in the list it is one approval", () => {
    const one = toggle(emptySelection, list[0]!)
    assert.deepStrictEqual(places(extendTo(one, list, list[9]!, list[8])), [0, 8, 9])
    assert.deepStrictEqual(places(extendTo(emptySelection, list, list[9]!)), [9])
    assert.deepStrictEqual(places(extendTo(one, list.slice(1), list[9]!)), [0, 9])
    // The target has ended meanwhile.
    assert.deepStrictEqual(places(extendTo(one, list.slice(0, 9), list[9]!)), [0])
  })

  it("a selection has at most as many approvals as one request decides", () => {
    const full = extendTo(toggle(emptySelection, list[0]!), list, list.at(-1)!)
    assert.lengthOf(places(full), MAX_DECISIONS)
    assert.deepStrictEqual(places(full).at(-1), MAX_DECISIONS - 1)
    assert.lengthOf(places(toggle(full, list.at(-1)!)), MAX_DECISIONS)
    // Backwards, those next to the anchor are selected.
    const back = extendTo(toggle(emptySelection, list.at(-1)!), list, list[0]!)
    assert.deepStrictEqual(places(back)[0], 20)
  })

  it("deselecting keeps the others", () => {
    const two = toggle(toggle(emptySelection, list[0]!), list[1]!)
    assert.deepStrictEqual(places(deselect(two, new Set([list[0]!, list[2]!]))), [1])
  })
})
