import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { isPersonName, isVisibleLine } from "../../src/domain/VisibleText.ts"

const accepts = Schema.is(Schema.String.check(isVisibleLine))
const acceptsName = Schema.is(Schema.String.check(isPersonName))

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

describe("isPersonName", () => {
  it.each([
    ["a Persian name with a non-joiner", "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627"],
    ["a Sinhala name with a joiner", "\u0dc1\u0dca\u200d\u0dbb\u0dd3 \u0dbd\u0d82\u0d9a\u0dcf"],
    ["a Hindi syllable with a non-joiner", "\u0915\u094d\u200c\u0937"],
    ["a family of emoji", "\u{1f468}\u200d\u{1f469}\u200d\u{1f467}"],
    ["a red heart after a name", "Ann \u2764\ufe0f"],
    ["a flag of a region", "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}"],
    ["an ordinary name", "Ann M\u00fcller-O'Neill"]
  ])("%s is accepted", (_what, text) => assert.isTrue(acceptsName(text)))

  it.each([
    ["nothing", ""],
    ["blanks", "  "],
    ["a joiner between Latin letters", "ad\u200dmin"],
    ["a non-joiner between Latin letters", "ad\u200cmin"],
    ["a joiner alone", "\u200d"],
    ["a joiner at the start", "\u200d\u0639\u0644\u06cc"],
    ["a joiner at the end", "\u0639\u0644\u06cc\u200c"],
    ["two joiners in a row", "\u0639\u0644\u06cc\u200c\u200c\u0631\u0636\u0627"],
    ["a joiner between emoji that make no sequence", "\u{1f44d}\u200d\u{1f44d}"],
    ["a variation selector after a letter", "a\ufe0f"],
    ["a zero-width space", "ad\u200bmin"],
    ["a bidirectional override between Persian letters", "\u0639\u202e\u0644"]
  ])("%s is rejected", (_what, text) => assert.isFalse(acceptsName(text)))
})
