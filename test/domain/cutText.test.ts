import { assert, describe, it } from "@effect/vitest"
import { cutText } from "../../src/domain/cutText.ts"

describe("cutText", () => {
  it("cuts a longer text, with its suffix, without splitting a character", () => {
    assert.strictEqual(cutText("abc", 3), "abc")
    assert.strictEqual(cutText("abcd", 3), "abc")
    assert.strictEqual(cutText("abcd", 3, "…"), "ab…")
    assert.strictEqual(cutText("a🙂", 3), "a🙂")
    assert.strictEqual(cutText("a🙂b", 2), "a")
    assert.strictEqual(cutText("a🙂b", 3, "…"), "a…")
  })
})
