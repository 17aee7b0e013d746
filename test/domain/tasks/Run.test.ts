import { assert, describe, it } from "@effect/vitest"
import { parseTraceparent } from "../../../src/domain/tasks/Run.ts"

const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
const span = "00f067aa0ba902b7"

describe("parseTraceparent", () => {
  it("a valid traceparent is returned", () => {
    assert.strictEqual(parseTraceparent(`00-${trace}-${span}-01`), `00-${trace}-${span}-01`)
  })

  it("one of a later version is read as version 00, without the members that it adds", () => {
    for (const header of [`01-${trace}-${span}-01`, `cc-${trace}-${span}-01-what-the-future-holds`]) {
      assert.strictEqual(parseTraceparent(header), `00-${trace}-${span}-01`)
    }
  })

  it.each([
    undefined,
    "",
    `ff-${trace}-${span}-01`,
    `01-${trace}-${span}-01more`,
    `01-${"0".repeat(32)}-${span}-01`,
    `00-${trace}-${span}`,
    `00-${"0".repeat(32)}-${span}-01`,
    `00-${trace}-${"0".repeat(16)}-01`,
    `00-${trace.toUpperCase()}-${span}-01`,
    `00-${trace}-${span}-01-more`
  ])("an invalid traceparent gives null: %s", (header) => {
    assert.isNull(parseTraceparent(header))
  })
})
