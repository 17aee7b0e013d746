import { assert, describe, it } from "vitest"
import { plantedBugs, withBug } from "../../../scripts/simulate/planted.ts"

describe("planted bugs", () => {
  it.each(Object.keys(plantedBugs))("the lines of %s are still there to be broken", (name) => {
    assert.isAbove(withBug(name).size, 0)
  })
})
