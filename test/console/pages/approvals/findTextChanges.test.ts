import { assert, describe, it } from "@effect/vitest"
import type { Schema } from "effect"
import fc from "fast-check"
import { findTextChanges } from "../../../../src/console/pages/approvals/findTextChanges.ts"

const file = (...lines: ReadonlyArray<string>) => lines.join("\n")
const before = file("server:", "  port: 80", "  host: a", "  tls: true")
const after = file("server:", "  port: 8080", "  host: a", "  tls: true")

const summarize = (args: Schema.Json, ...steps: ReadonlyArray<Schema.Json | undefined>) =>
  findTextChanges(args, steps).map(({ beforePath, path, step }) => [beforePath, path, step])

describe("findTextChanges", () => {
  it("two members whose names say which one replaces the other are compared, at any depth", () => {
    const named: ReadonlyArray<readonly [string, string]> = [
      ["old_string", "new_string"],
      ["oldText", "newText"],
      ["before", "after"],
      ["config_before", "config_after"],
      ["originalContent", "updatedContent"],
      ["search", "replace"],
      ["OLD_VALUE", "NEW_VALUE"]
    ]
    for (const [older, newer] of named) {
      const [change] = findTextChanges({ edits: [{ path: "a", [older]: before, [newer]: after }] }, [])
      assert.deepInclude(change, { beforePath: `edits.0.${older}`, path: `edits.0.${newer}` })
      assert.deepStrictEqual(
        change?.changes.filter(({ op }) => op !== "same"),
        [
          { op: "removed", text: "  port: 80" },
          { op: "added", text: "  port: 8080" }
        ]
      )
    }
  })

  it("texts on one line, equal texts and texts without a counterpart are not compared", () => {
    assert.deepStrictEqual(summarize({ old: "a", new: "b" }), [])
    assert.deepStrictEqual(summarize({ old: before, new: before }), [])
    assert.deepStrictEqual(summarize({ old: before, newer: after, new: 7 }), [])
    assert.deepStrictEqual(summarize({ threshold: before, note: after }), [])
    assert.deepStrictEqual(summarize("text\ntext"), [])
  })

  it("a text is compared with the newest earlier step that has one in its place, if they share lines", () => {
    const other = file("-- other", "SELECT 1")
    assert.deepStrictEqual(
      summarize({ manifest: after }, { manifest: other }, { manifest: before }, { name: "x" }, undefined),
      [["manifest", "manifest", 1]]
    )
    assert.deepStrictEqual(summarize({ manifest: after }, { manifest: before }, { manifest: other }), [])
    assert.deepStrictEqual(summarize({ manifest: after }, { manifest: after }), [])
  })

  it("a text that already has its earlier text beside it is not compared with other steps", () => {
    const step = { old: before, new: before }
    assert.deepStrictEqual(summarize({ old: before, new: after }, step), [["old", "new", undefined]])
  })

  it("comparisons are bounded, and give back both texts", () => {
    const edits = Array.from({ length: 100 }, (_, index) => ({ old: `${index}\na`, new: `${index}\nb` }))
    assert.lengthOf(findTextChanges({ edits }, []), 10)
    const text = fc
      .array(fc.constantFrom("a", "b", "c", ""), { maxLength: 12 })
      .map((lines) => lines.join("\n"))
    fc.assert(
      fc.property(text, text, (older, newer) => {
        for (const { changes } of findTextChanges({ old: older, new: newer }, [])) {
          const side = (op: string) =>
            changes.filter((one) => one.op === "same" || one.op === op).map((one) => one.text)
          assert.strictEqual(side("removed").join("\n"), older)
          assert.strictEqual(side("added").join("\n"), newer)
        }
      })
    )
  })
})
