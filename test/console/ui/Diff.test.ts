import { assert, describe, it } from "@effect/vitest"
import { diffFields, jsonEquals } from "../../../src/console/ui/Diff.tsx"

describe("Diff", () => {
  it("diffFields tells changed, added, removed and equal fields apart", () => {
    assert.deepStrictEqual(
      diffFields({ a: 1, b: [1, { c: 2 }], gone: null }, { b: [1, { c: 2 }], a: 2, more: true }),
      [
        { name: "a", kind: "changed" },
        { name: "b", kind: "same" },
        { name: "gone", kind: "removed" },
        { name: "more", kind: "added" }
      ]
    )
  })

  it("jsonEquals ignores the order of object keys and respects the order of arrays", () => {
    assert.isTrue(jsonEquals({ a: 1, b: { c: [1, 2] } }, { b: { c: [1, 2] }, a: 1 }))
    assert.isFalse(jsonEquals([1, 2], [2, 1]))
    assert.isFalse(jsonEquals({}, []))
    assert.isFalse(jsonEquals(null, {}))
  })
})
