/**
 * Text from agents, users or other systems. React renders it as text, never as markup. What remains are characters that mislead the
 * reader. Invisible characters are shown as their code points, long runs of blanks and empty lines as their number, and letters that look
 * like Latin ones are marked.
 */
import { Fragment, type Ref } from "react"
import { findLookAlikes } from "../../domain/lookAlikes.ts"

/**
 * Invisible characters: control characters except line feed and tab; format, direction and zero-width characters; line separators;
 * private-use characters, lone surrogates and the blank Braille pattern. Variation selectors and joiners inside an emoji sequence are kept.
 */
const HIDDEN =
  "(?![\\n\\t])(?!(?<=\\p{Extended_Pictographic}\\ufe0f?)[\\ufe0f\\u200d])[\\p{Cc}\\p{Cf}\\p{DI}\\p{Zl}\\p{Zp}\\p{Co}\\p{Cs}\\u2800]"

/** More than two empty lines, more blanks than fit on a line, and marks that are drawn over the lines beside them. */
const MISLEADING = new RegExp(
  `(?<lines>\\n(?:[^\\S\\n]*\\n){3,})|(?<blanks>[^\\S\\n]{64,})|(?<marks>\\p{M}{6,})|${HIDDEN}`,
  "gu"
)

/** `hidden`: the code point of an invisible character, such as `U+202E`. `gap`: how much of nothing was left out. `lookAlike`: letters. */
export interface TextPiece {
  readonly text: string
  readonly kind: "plain" | "hidden" | "gap" | "lookAlike"
}

const codePointName = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`

const gapText = (count: number, noun: string): string => `⋯ ${count.toLocaleString("en")} ${noun} ⋯`

/** Splits a text into plain parts and parts that would mislead a reader. */
export const splitMisleading = (text: string): ReadonlyArray<TextPiece> => {
  const pieces: Array<TextPiece> = []
  let from = 0
  for (const { 0: found, groups, index } of text.matchAll(MISLEADING)) {
    pushPlain(pieces, text.slice(from, index))
    if (groups?.["lines"] !== undefined) {
      const gap = gapText(found.split("\n").length - 2, "empty lines")
      pieces.push({ text: "\n", kind: "plain" }, { text: gap, kind: "gap" }, { text: "\n", kind: "plain" })
    } else if (groups?.["blanks"] !== undefined) {
      pieces.push({ text: gapText(found.length, "blanks"), kind: "gap" })
    } else if (groups?.["marks"] !== undefined) {
      pieces.push({ text: gapText([...found].length, "combining marks"), kind: "gap" })
    } else pieces.push({ text: codePointName(found), kind: "hidden" })
    from = index + found.length
  }
  pushPlain(pieces, text.slice(from))
  return pieces
}

/** Adds a text without invisible characters, its look-alike letters apart. */
const pushPlain = (pieces: Array<TextPiece>, text: string): void => {
  const marked = findLookAlikes(text)
  let from = 0
  for (let at = 0; at < text.length; at = from) {
    const isMarked = marked.has(at)
    from = at + 1
    while (from < text.length && marked.has(from) === isMarked) from++
    pieces.push({ text: text.slice(at, from), kind: isMarked ? "lookAlike" : "plain" })
  }
}

const marks = {
  hidden: ["hidden-character", (text: string) => `Hidden character ${text}`],
  gap: ["gap", () => "Left out because it would only move the rest away"],
  lookAlike: [
    "look-alike",
    (text: string) => `Looks like Latin letters, but is ${[...text].map(codePointName).join(" ")}`
  ]
} as const

/** The text in an element that isolates its direction from the surrounding text. */
export const UntrustedText = ({
  ref,
  text,
  title
}: {
  readonly text: string
  readonly title?: string
  readonly ref?: Ref<HTMLElement>
}) => (
  <bdi ref={ref} className="untrusted" title={title}>
    {splitMisleading(text).map((piece, index) => {
      if (piece.kind === "plain") return <Fragment key={index}>{piece.text}</Fragment>
      const [className, explain] = marks[piece.kind]
      return (
        <span key={index} className={className} title={explain(piece.text)}>
          {piece.text}
        </span>
      )
    })}
  </bdi>
)
