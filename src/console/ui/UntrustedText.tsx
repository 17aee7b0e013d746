/**
 * Text from agents, users or other systems. React renders it as text, never as markup. What remains are characters that mislead the
 * reader: bidirectional controls, invisible characters and unusual line separators. They are shown as their code points.
 */
import { Fragment } from "react"

/**
 * Control characters except line feed and tab; format, direction and zero-width characters; line separators; private-use characters and
 * lone surrogates. Variation selectors and joiners inside an emoji sequence are kept.
 */
const HIDDEN =
  /(?![\n\t])(?!(?<=\p{Extended_Pictographic}\ufe0f?)[\ufe0f\u200d])[\p{Cc}\p{Cf}\p{DI}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu

const codePointName = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`

/** Splits a text into visible parts and hidden characters; a hidden one has its code point, such as `U+202E`, as its text. */
export const splitHiddenCharacters = (
  text: string
): ReadonlyArray<{ readonly text: string; readonly hidden: boolean }> => {
  const pieces: Array<{ readonly text: string; readonly hidden: boolean }> = []
  let from = 0
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > from) pieces.push({ text: text.slice(from, match.index), hidden: false })
    pieces.push({ text: codePointName(match[0]), hidden: true })
    from = match.index + match[0].length
  }
  if (from < text.length) pieces.push({ text: text.slice(from), hidden: false })
  return pieces
}

/** The text in an element that isolates its direction from the surrounding text. */
export const UntrustedText = ({ text, title }: { readonly text: string; readonly title?: string }) => {
  const pieces = splitHiddenCharacters(text)
  return (
    <bdi className="untrusted" title={title}>
      {pieces.map((piece, index) =>
        piece.hidden ? (
          <span key={index} className="hidden-character" title={`Hidden character ${piece.text}`}>
            {piece.text}
          </span>
        ) : (
          <Fragment key={index}>{piece.text}</Fragment>
        )
      )}
    </bdi>
  )
}
