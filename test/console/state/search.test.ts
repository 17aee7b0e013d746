import { assert, describe, it } from "@effect/vitest"
import { detailText } from "../../../src/console/state/search.ts"

describe("Search results", () => {
  it("the start of a JSON object is shown without punctuation, and times in it are not cut", () => {
    assert.strictEqual(
      detailText('{"start":"2027-01-31T16:57:20.443Z","order":{"id":4711},"ids":["a","b'),
      "start: 2027-01-31T16:57:20.443Z, order: id: 4711, ids: a, b"
    )
    assert.strictEqual(detailText("refund: 16:57"), "refund: 16:57")
  })
})
