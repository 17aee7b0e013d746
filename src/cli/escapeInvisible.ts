/** Control characters and others that are not seen, except line breaks. */
const INVISIBLE = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu

/**
 * A text for a terminal, with invisible characters as `\u{9b}`: control characters could write anything to a terminal, and texts that differ
 * in such a character would look equal.
 */
export const escapeInvisible = (text: string): string =>
  text.replaceAll(INVISIBLE, (character) => `\\u{${character.codePointAt(0)?.toString(16) ?? ""}}`)

/** The same for the text of a JSON value, which stays one: `\u009b`. */
export const escapeInvisibleJson = (json: string): string =>
  json.replaceAll(INVISIBLE, (character) =>
    Array.from(
      { length: character.length },
      (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`
    ).join("")
  )
