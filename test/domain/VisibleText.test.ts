import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { isVisibleLine } from "../../src/domain/VisibleText.ts"

const accepts = Schema.is(Schema.String.check(isVisibleLine))

describe("isVisibleLine", () => {
  it.each([
    "Ann",
    "Ann Müller-O'Neill",
    "日本語",
    "אבג",
    "naïve ",
    "a\u0301",
    "👍",
    "pay_*",
    "'; DROP TABLE",
    "1"
  ])("%j is accepted", (text) => assert.isTrue(accepts(text)))

  it.each([
    ["nothing", ""],
    ["blanks", "   "],
    ["blanks of other kinds", "\u00a0\u2003\u3000"],
    ["a line break", "a\nb"],
    ["a tab", "a\tb"],
    ["NUL", "a\0"],
    ["a C1 control", "a\u0085b"],
    ["a line separator", "a\u2028b"],
    ["a paragraph separator", "a\u2029b"],
    ["a zero-width space", "ad\u200bmin"],
    ["a zero-width joiner", "a\u200db"],
    ["a word joiner", "a\u2060b"],
    ["a byte order mark", "\ufeffa"],
    ["a soft hyphen", "ad\u00admin"],
    ["a bidirectional override", "a\u202enimda"],
    ["a bidirectional isolate", "a\u2066b\u2069"],
    ["a right-to-left mark", "a\u200f"],
    ["a Hangul filler", "\u3164"],
    ["a tag character", "a\u{e0041}"],
    ["half a character", "a\ud83d"]
  ])("%s is rejected", (_what, text) => assert.isFalse(accepts(text)))
})
