import { Schema } from "effect"

/**
 * The published pattern: no control characters, and one character that is not white space. Every line that
 * {@link isVisibleLine} accepts matches it. The other rules would need Unicode character classes and look-ahead, which
 * many regular expression engines lack.
 */
const VISIBLE_LINE = String.raw`^[^\x00-\x1f\x7f-\x9f]*[^\x00-\x1f\x7f-\x9f\s][^\x00-\x1f\x7f-\x9f]*$`

/**
 * A line of text whose every character is visible: no control characters, line or paragraph separators, zero-width or bidirectional
 * characters, and not only spaces. People tell keys, tools and steps apart by such names, so two names that look equal must be equal.
 */
export const isVisibleLine = Schema.isPattern(
  /^(?=[^]*[^\p{Z}])[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]*$/u,
  {
    expected: "text on one line, not blank, without control, zero-width or bidirectional characters",
    toJsonSchema: () => [{ pattern: VISIBLE_LINE }, true]
  }
)

/** Scripts whose orthography has joiners between letters, as in Persian, Hindi or Sinhala. */
const JOINED = String.raw`[[\p{L}\p{M}]&&[\p{sc=Arab}\p{sc=Syrc}\p{sc=Mong}\p{sc=Deva}\p{sc=Beng}\p{sc=Guru}\p{sc=Gujr}\p{sc=Orya}\p{sc=Taml}\p{sc=Telu}\p{sc=Knda}\p{sc=Mlym}\p{sc=Sinh}\p{sc=Khmr}\p{sc=Mymr}]]`

/** An emoji with its modifiers. */
const EMOJI = String.raw`\p{RGI_Emoji}`

/**
 * Joiners that a name needs: U+200C and U+200D between letters of such scripts, and emoji, which have U+200D and U+FE0F within. Elsewhere they
 * are invisible, and make two names that look equal.
 */
const NEEDED_JOINERS = new RegExp(`(?<=${JOINED})[\\u200c\\u200d](?=${JOINED})|${EMOJI}`, "gv")

const isVisible = Schema.is(Schema.String.check(isVisibleLine))

/** Like {@link isVisibleLine}, for names of people: with the joiners of their scripts, and emoji. */
export const isPersonName = Schema.makeFilter(
  (text: string) => text.trim() !== "" && isVisible(text.replaceAll(NEEDED_JOINERS, "x")),
  {
    expected: "text on one line, not blank, without control, zero-width or bidirectional characters",
    toJsonSchema: () => [{ pattern: VISIBLE_LINE }, true]
  }
)

/** The Braille pattern without dots is a symbol by its category, and blank. */
const VISIBLE = /[^\p{Z}\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]/u

/** Whether a text of any number of lines has a character that people see. */
export const hasVisibleText = (text: string): boolean => VISIBLE.test(text)

/** A text that {@link hasVisibleText}. The published pattern: a character that is neither a control character nor white space. */
export const isVisibleText = Schema.makeFilter(hasVisibleText, {
  expected: "a text with a visible character",
  toJsonSchema: () => [{ pattern: String.raw`[^\x00-\x1f\x7f-\x9f\s]` }, true]
})
