import { assert, describe, it } from "@effect/vitest"
import { splitHiddenCharacters } from "../../../src/console/ui/UntrustedText.tsx"

const hidden = (text: string) =>
  splitHiddenCharacters(text).flatMap((piece) => (piece.hidden ? [piece.text] : []))

describe("UntrustedText", () => {
  it("text without hidden characters is unchanged", () => {
    for (const text of [
      "plain",
      "two\nlines\tand a tab",
      "Müller",
      "مرحبا",
      "日本語",
      "a<b>c</b>",
      "❤️ 👩‍🚀"
    ]) {
      assert.deepStrictEqual(splitHiddenCharacters(text), [{ text, hidden: false }], text)
    }
  })

  it("bidirectional, zero-width and control characters are replaced by their code points", () => {
    assert.deepStrictEqual(hidden("invoice\u202efdp.exe"), ["U+202E"])
    assert.deepStrictEqual(hidden("pay\u200bpal\u2066x\u2069"), ["U+200B", "U+2066", "U+2069"])
    assert.deepStrictEqual(hidden("bell\u0007 soft\u00ad bom\ufeff"), ["U+0007", "U+00AD", "U+FEFF"])
    assert.deepStrictEqual(hidden("tag\u{e0041} filler\u3164 line\u2028"), ["U+E0041", "U+3164", "U+2028"])
  })

  it("the visible text around hidden characters is kept completely", () => {
    const text = "a\u202eb\u200bc"
    assert.strictEqual(
      splitHiddenCharacters(text)
        .map((piece) => (piece.hidden ? "·" : piece.text))
        .join(""),
      "a·b·c"
    )
  })
})
