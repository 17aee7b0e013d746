import { Schema } from "effect"

/**
 * A line of text whose every character is visible: no control characters, line or paragraph separators, zero-width or bidirectional
 * characters, and not only spaces. People tell keys, tools and steps apart by such names, so two names that look equal must be equal.
 */
export const isVisibleLine = Schema.isPattern(
  /^(?=[^]*[^\p{Z}])[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]*$/u,
  { expected: "text on one line, not blank, without control, zero-width or bidirectional characters" }
)
