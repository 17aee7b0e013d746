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
