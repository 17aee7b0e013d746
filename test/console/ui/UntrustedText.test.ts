import { assert, describe, it } from "@effect/vitest"
import { splitMisleading, type TextPiece } from "../../../src/console/ui/UntrustedText.tsx"

const piecesOf = (kind: TextPiece["kind"], text: string) =>
  splitMisleading(text).flatMap((piece) => (piece.kind === kind ? [piece.text] : []))

describe("UntrustedText", () => {
  it("a text without misleading characters is unchanged", () => {
    for (const text of [
      "plain",
      "two\nlines\tand a tab",
      "two empty lines\n\n\nare kept",
      "Müller",
      "مرحبا",
      "日本語",
      "Привет, мир",
      "документ.pdf von Ольга",
      "Δt = 4 μm",
      "a<b>c</b>",
      "❤️ 👩‍🚀"
    ]) {
      assert.deepStrictEqual(splitMisleading(text), [{ text, kind: "plain" }], text)
    }
  })

  it("bidirectional, zero-width and control characters are replaced by their code points", () => {
    const hidden = (text: string) => piecesOf("hidden", text)
    assert.deepStrictEqual(hidden("invoice\u202efdp.exe"), ["U+202E"])
    assert.deepStrictEqual(hidden("pay\u200bpal\u2066x\u2069"), ["U+200B", "U+2066", "U+2069"])
    assert.deepStrictEqual(hidden("bell\u0007 soft\u00ad bom\ufeff"), ["U+0007", "U+00AD", "U+FEFF"])
    assert.deepStrictEqual(hidden("tag\u{e0041} filler\u3164 line\u2028"), ["U+E0041", "U+3164", "U+2028"])
    assert.deepStrictEqual(hidden("blank\u2800braille"), ["U+2800"])
  })

  it("runs of empty lines, of blanks and of combining marks are replaced by their number", () => {
    const gaps = (text: string) => piecesOf("gap", text)
    assert.deepStrictEqual(gaps(`echo safe${"\n".repeat(200)}rm`), ["⋯ 199 empty lines ⋯"])
    assert.deepStrictEqual(gaps(`a${"\n \u3000\t".repeat(5)}\nb`), ["⋯ 5 empty lines ⋯"])
    assert.deepStrictEqual(gaps("\n\n\n\n"), ["⋯ 3 empty lines ⋯"])
    assert.deepStrictEqual(gaps(`a${"\u00a0".repeat(2_000)}b`), ["⋯ 2,000 blanks ⋯"])
    assert.deepStrictEqual(gaps(`Z${"\u0335".repeat(40)}algo`), ["⋯ 40 combining marks ⋯"])
  })

  it("letters of another script are marked in a Latin word, and whole words of look-alikes in a Latin name", () => {
    const letters = (text: string) => piecesOf("lookAlike", text)
    assert.deepStrictEqual(letters("раyments.refund"), ["ра"])
    assert.deepStrictEqual(letters("https://pаypаl.com"), ["а", "а"])
    assert.deepStrictEqual(letters("payments.ѕсоре"), ["ѕсоре"])
    assert.deepStrictEqual(letters("gοοgle and Αpple"), ["οο", "Α"])
    assert.deepStrictEqual(letters("сор или оса"), [])
  })

  it("the plain text around the other parts is kept completely", () => {
    assert.strictEqual(
      splitMisleading("a\u202eb\u200bc\n\n\n\n\nd pаy")
        .map(({ kind, text }) => (kind === "plain" || kind === "lookAlike" ? text : "·"))
        .join(""),
      "a·b·c\n·\nd pаy"
    )
  })
})
