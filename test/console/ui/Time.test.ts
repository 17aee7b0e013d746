import { assert, describe, it } from "@effect/vitest"
import { agoText } from "../../../src/console/ui/Time.tsx"

describe("RelativeTime", () => {
  it("a time that is rounded up to a larger unit is in that unit", () => {
    const texts = [-4, -59.4, -59.6, -3_569, -3_571, -84_599, -84_601, 59.6].map(agoText)
    assert.deepStrictEqual(texts, [
      "now",
      "59 sec. ago",
      "1 min. ago",
      "59 min. ago",
      "1 hr. ago",
      "23 hr. ago",
      "yesterday",
      "in 1 min."
    ])
  })
})
