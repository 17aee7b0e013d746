import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { diffLines } from "../../../src/domain/tasks/diffLines.ts"

const joined = (changes: ReturnType<typeof diffLines>, left: "added" | "removed") =>
  changes
    .filter(({ op }) => op !== left)
    .map(({ text }) => text)
    .join("\n")

describe("the difference of two texts by lines", () => {
  it("has the lines that stay, and those that are removed and added", () => {
    assert.deepStrictEqual(diffLines("a\nb\nc\nd", "a\nx\nc\nd\ne"), [
      { op: "same", text: "a" },
      { op: "removed", text: "b" },
      { op: "added", text: "x" },
      { op: "same", text: "c\nd" },
      { op: "added", text: "e" }
    ])
    assert.deepStrictEqual(diffLines("", "a\nb"), [{ op: "added", text: "a\nb" }])
    assert.deepStrictEqual(diffLines("a", ""), [{ op: "removed", text: "a" }])
    assert.deepStrictEqual(diffLines("", ""), [])
    assert.deepStrictEqual(diffLines("a\n\nb", "a\n\nb"), [{ op: "same", text: "a\n\nb" }])
  })

  const Text = Schema.Array(Schema.Literals(["a", "b", "c", ""])).check(Schema.isMaxLength(12))

  it.prop("yields both texts again", [Text, Text], ([before, after]) => {
    const [older, newer] = [before.join("\n"), after.join("\n")]
    const changes = diffLines(older, newer)
    assert.strictEqual(joined(changes, "added"), older)
    assert.strictEqual(joined(changes, "removed"), newer)
    assert.isTrue(changes.every(({ op }, index) => op !== changes[index - 1]?.op))
  })

  it("does not grow with the square of large texts", () => {
    const older = Array.from({ length: 40_000 }, (_, line) => `old ${line}`).join("\n")
    const newer = Array.from({ length: 40_000 }, (_, line) => `new ${line}`).join("\n")
    assert.deepStrictEqual(diffLines(`same\n${older}`, `same\n${newer}`), [
      { op: "same", text: "same" },
      { op: "removed", text: older },
      { op: "added", text: newer }
    ])
  })
})
