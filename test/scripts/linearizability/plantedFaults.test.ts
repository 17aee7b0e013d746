import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import path from "node:path"
import { plantedFaults } from "../../../scripts/linearizability/plantedFaults.ts"
import { mutate, root } from "../../../scripts/mutants/list.ts"

describe("plantedFaults", () => {
  for (const [name, fault] of Object.entries(plantedFaults)) {
    it(`the line of "${name}" is in the source once`, () => {
      const source = readFileSync(path.join(root, "src", fault.file), "utf8")
      const marked = mutate(source, { from: fault.from, to: "\0" })
      assert.lengthOf(marked.split("\0"), 2)
    })
  }
})
