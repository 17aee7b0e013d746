import { Schema } from "effect"

/**
 * Text on one line in which all that there is can be seen: no control character, no line or paragraph separator, nothing that is drawn as
 * nothing or turns the direction of its neighbours, and not blanks alone. People tell keys, tools and steps apart by such names.
 */
export const isVisibleLine = Schema.isPattern(
  /^(?=[^]*[^\p{Z}])[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]*$/u,
  { expected: "text on one line, not blank, without control, zero-width or bidirectional characters" }
)
