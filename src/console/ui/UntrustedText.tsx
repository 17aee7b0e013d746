/**
 * Text that somebody else wrote. React writes it as text, never as markup; what is left is text that deceives the eye: marks that turn
 * the direction of what follows, characters that are not seen, and lines that are not lines. Those are shown as what they are.
 */
import { Fragment } from "react"

/**
 * Controls but the line feed and the tab; marks of format, direction and no width; separators of lines; what is private or half of a
 * character. Within an emoji, the marks that make it one are left as they are.
 */
const HIDDEN =
  /(?![\n\t])(?!(?<=\p{Extended_Pictographic}\ufe0f?)[\ufe0f\u200d])[\p{Cc}\p{Cf}\p{DI}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu

const codePointName = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`

/** Pieces of a text: what is shown as it stands, and characters that are shown by their number. */
export const splitHiddenCharacters = (
  text: string
): ReadonlyArray<{ readonly text: string; readonly hidden: boolean }> => {
  const pieces: Array<{ readonly text: string; readonly hidden: boolean }> = []
  let from = 0
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) pieces.push({ text: text.slice(from, found.index), hidden: false })
    pieces.push({ text: codePointName(found[0]), hidden: true })
    from = found.index + found[0].length
  }
  if (from < text.length) pieces.push({ text: text.slice(from), hidden: false })
  return pieces
}

/** The text, isolated from the direction of what stands around it. */
export const UntrustedText = ({ text, title }: { readonly text: string; readonly title?: string }) => {
  const pieces = splitHiddenCharacters(text)
  return (
    <bdi className="safe" title={title}>
      {pieces.map((piece, index) =>
        piece.hidden ? (
          <span key={index} className="hidden-character" title={`The hidden character ${piece.text}`}>
            {piece.text}
          </span>
        ) : (
          <Fragment key={index}>{piece.text}</Fragment>
        )
      )}
    </bdi>
  )
}
