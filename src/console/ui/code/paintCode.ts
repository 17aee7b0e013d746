/**
 * Colours source text by CSS highlights, which paint text where it is: no element, character or line of the document changes, so everything
 * that depends on the text stays as it is without them.
 */
import { detectLanguage } from "./detectLanguage.ts"
import { findTokens, type Token, type TokenKind } from "./findTokens.ts"

/** The most tokens of one text that are coloured: some 250 KB of SQL. What follows stays as plain text. */
const MAX_TOKENS = 30_000

/** One highlight for each kind of token. The style sheet has their colours. */
const highlights = new Map<TokenKind, Highlight>()

const highlightOf = (kind: TokenKind): Highlight => {
  const known = highlights.get(kind)
  if (known !== undefined) return known
  const made = new Highlight()
  highlights.set(kind, made)
  CSS.highlights.set(`code-${kind}`, made)
  return made
}

/** A text node, and the position of its first character in the whole text. */
interface Piece {
  readonly node: Text
  readonly from: number
  /** Whether it is plain text: marks of misleading characters keep their own colour. */
  readonly isPlain: boolean
}

/** The text nodes of an element, in order. */
const piecesOf = (element: Element): ReadonlyArray<Piece> => {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
  const pieces: Array<Piece> = []
  let from = 0
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    if (!(node instanceof Text)) continue
    pieces.push({ node, from, isPlain: node.parentElement === element })
    from += node.length
  }
  return pieces
}

/** The parts of tokens in plain text nodes, with their kinds. */
const rangesOf = (
  pieces: ReadonlyArray<Piece>,
  tokens: ReadonlyArray<Token>
): ReadonlyArray<readonly [TokenKind, StaticRange]> => {
  const ranges: Array<readonly [TokenKind, StaticRange]> = []
  let first = 0
  for (const { from, kind, to } of tokens) {
    for (let index = first; index < pieces.length; index++) {
      const piece = pieces[index]
      if (piece === undefined || piece.from >= to) break
      const { isPlain, node } = piece
      const end = piece.from + node.length
      if (end <= from) {
        first = index + 1
        continue
      }
      if (!isPlain) continue
      ranges.push([
        kind,
        new StaticRange({
          startContainer: node,
          startOffset: Math.max(from - piece.from, 0),
          endContainer: node,
          endOffset: Math.min(to, end) - piece.from
        })
      ])
    }
  }
  return ranges
}

/** Colours the text of an element, if it is of a known language. Returns what removes the colours. `name`: the argument of the text. */
export const paintCode = (element: Element, name: string): (() => void) => {
  const pieces = piecesOf(element)
  const text = pieces.map(({ node }) => node.data).join("")
  const language = detectLanguage(name, text)
  if (language === undefined) return () => undefined
  const ranges = rangesOf(pieces, findTokens(text, language).slice(0, MAX_TOKENS))
  for (const [kind, range] of ranges) highlightOf(kind).add(range)
  return () => {
    for (const [kind, range] of ranges) highlightOf(kind).delete(range)
  }
}
