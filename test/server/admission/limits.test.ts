import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { limitNames } from "../../../src/server/observability/LimitUse.ts"

describe("limits", () => {
  it("the document of limits has a row for each that the metrics have", () => {
    const document = readFileSync(new URL("../../../docs/noisy-neighbors.md", import.meta.url), "utf8")
    const rows = document.split("\n").filter((line) => line.startsWith("|"))
    assert.deepStrictEqual(
      limitNames.filter((name) => !rows.some((row) => row.includes(`\`${name}\``))),
      []
    )
  })
})
