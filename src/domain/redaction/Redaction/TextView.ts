import type { TextRange } from "./TextRange.ts"

/** A normalized form of a text. `at` maps each character back to its original index, so that a finding is removed from the original. */
export interface TextView {
  readonly text: string
  /** The original index of each character, and finally the original length; absent if nothing was removed. */
  readonly at?: Int32Array
}

/** Returns the range of the original, including characters removed in between. */
export const toOriginal = (view: TextView, { end, start }: TextRange): TextRange =>
  view.at === undefined ? { start, end } : { start: view.at[start] ?? 0, end: lastOf(view.at, end) }

const lastOf = (at: Int32Array, end: number): number => at[end] ?? 0

/** Whether characters were removed directly before an index: then the word boundary there is unknown. */
export const isAfterRemoval = ({ at }: TextView, index: number): boolean =>
  at !== undefined && index > 0 && (at[index] ?? 0) !== (at[index - 1] ?? 0) + 1

/**
 * Characters that do not render: Unicode's default ignorables (soft hyphen, zero-width characters and joiners, direction marks, variation
 * selectors, tags), annotation marks, and controls other than white space.
 */
const INVISIBLE =
  // oxlint-disable-next-line no-control-regex -- exactly these are meant
  /[\p{Default_Ignorable_Code_Point}\u0001-\u0008\u000e-\u001f\u007f\ufff9-\ufffb]/u

/** Sequences that colour the text of a terminal. */
// oxlint-disable-next-line no-control-regex -- exactly this is meant
const COLOUR = /\u001b\[[0-9;]{0,16}[A-Za-z]/

/** Full-width forms of visible ASCII. */
const WIDE = /[\uff01-\uff5e]/

/** Line breaks (Unicode Standard Annex 14, BK, CR, LF, NL). */
const BREAK = /[\n\v\f\r\u2028\u2029\u0085]/

/** Escapes of visible ASCII: `%67`, `\u0067`, `\x67`, `\/`, `&#103;`, `&#x67;`, `&quot;`. */
const ESCAPE =
  /%[2-7][0-9A-Fa-f]|\\u00[2-7][0-9A-Fa-f]|\\x[2-7][0-9A-Fa-f]|&#(?:x[2-7][0-9A-Fa-f]|[0-9]{2,3});|\\\/|&(?:quot|lt|gt|amp|apos);/

/** Escapes of quoted-printable, and the signs that a text is so encoded: an escaped equals sign, or a line that ends in one. */
const QUOTED_PRINTABLE = /=[2-7][0-9A-F]/
const IS_QUOTED_PRINTABLE = /=3D|=\r?\n/

/** Maximum rounds of unescaping: `%2567` is `%67` is `g`. */
const MAX_ESCAPED = 3

/** Removes invisible characters and decodes escapes and full-width forms; undefined if the text has none. */
export const normalizeText = (text: string): TextView | undefined => {
  let view: TextView | undefined
  if (COLOUR.test(text)) view = replaceMatches({ text }, COLOUR, () => "")
  if (INVISIBLE.test(view?.text ?? text) || WIDE.test(text))
    view = without(view ?? { text }, (character) => INVISIBLE.test(character), unwiden)
  for (let times = 0; times < MAX_ESCAPED && ESCAPE.test(view?.text ?? text); times++) {
    view = unescaped(view ?? { text }, ESCAPE)
  }
  const encoded = view?.text ?? text
  if (IS_QUOTED_PRINTABLE.test(encoded) && QUOTED_PRINTABLE.test(encoded)) {
    view = unescaped(view ?? { text }, QUOTED_PRINTABLE)
  }
  return view
}

/**
 * Removes line breaks within a token, with a preceding `=` or `\` and following blanks, as mail programs and terminals insert them. Line
 * breaks between words stay, unless `all`.
 */
export const joinLines = (view: TextView, all: boolean): TextView | undefined => {
  const { text } = view
  if (!BREAK.test(text)) return undefined
  return replaceMatches(view, /[\\=]?[\n\v\f\r\u2028\u2029\u0085][\s>]*/g, (found, index) => {
    const end = index + found.length
    const isJoined =
      all ||
      (isPartAt(text, index - 1, -1) && isPartAt(text, end, 1)) ||
      // A soft line break of quoted-printable.
      (found.startsWith("=") && isTokenCode(text.charCodeAt(index - 1)) && isTokenCode(text.charCodeAt(end)))
    return isJoined ? "" : undefined
  })
}

/** The end of one literal, an operator or a line break, and the start of the next, as in `"abc" + "def"`. */
const CONCATENATION =
  /["'`](?:[ \t]{0,8}(?:(?:\+|\.\.?|&)[ \t]{0,8}(?:\\?\r?\n[ \t]{0,64})?|\\?\r?\n[ \t]{0,64}(?:(?:\+|\.\.?|&)[ \t]{0,8})?)|[ \t]{1,8})[bfruBFRU]{0,2}["'`]/g

/** Joins string literals that a program concatenates; undefined if the text has none. */
export const joinLiterals = (view: TextView): TextView | undefined =>
  replaceMatches(view, CONCATENATION, () => "")

/** Maximum length of an inspected piece. */
const MAX_PIECE = 64

/** Words joined by punctuation, as in field and file names, and small numbers. */
const WORDS = /^[A-Z]?[a-z]*(?:[-_./=][A-Z]?[a-z]+)*[-_./=]?$|^[A-Z]+(?:_[A-Z0-9]+)+$|^-?[0-9]{1,4}$/

/** Whether the text from an index in one direction is part of a token: not words, and not a name before a value. */
const isPartAt = (text: string, index: number, step: 1 | -1): boolean => {
  let end = index
  while (Math.abs(end - index) < MAX_PIECE && isTokenCode(text.charCodeAt(end))) end += step
  const piece = step === 1 ? text.slice(index, end) : text.slice(end + 1, index + 1)
  return piece.length > 0 && !WORDS.test(piece) && !(step === 1 && text.charAt(end) === ":")
}

const isTokenCode = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) ||
  (code >= 0x41 && code <= 0x5a) ||
  (code >= 0x61 && code <= 0x7a) ||
  code === 0x5f || // _
  code === 0x2d || // -
  code === 0x2b || // +
  code === 0x2f || // /
  code === 0x3d || // =
  code === 0x2e // .

const without = (
  view: TextView,
  isRemoved: (character: string) => boolean,
  convert: (character: string) => string
): TextView => {
  const out: Array<string> = []
  const at: Array<number> = []
  let index = 0
  for (const character of view.text) {
    if (!isRemoved(character)) {
      out.push(convert(character))
      for (let unit = 0; unit < character.length; unit++) at.push(view.at?.[index + unit] ?? index + unit)
    }
    index += character.length
  }
  at.push(view.at?.[view.text.length] ?? view.text.length)
  return { text: out.join(""), at: Int32Array.from(at) }
}

const unwiden = (character: string): string =>
  WIDE.test(character) ? String.fromCharCode(character.charCodeAt(0) - 0xfee0) : character

/**
 * Replaces matches by nothing or by one character; undefined leaves a match as it is. Returns undefined if no match is
 * replaced.
 */
const replaceMatches = (
  view: TextView,
  pattern: RegExp,
  replace: (found: string, index: number) => string | undefined
): TextView | undefined => {
  const { text } = view
  const out: Array<string> = []
  const at: Array<number> = []
  let from = 0
  const keep = (end: number) => {
    if (end > from) out.push(text.slice(from, end))
    for (let index = from; index < end; index++) at.push(view.at?.[index] ?? index)
  }
  for (const { 0: found, index } of text.matchAll(new RegExp(pattern, "g"))) {
    const replacement = replace(found, index)
    if (replacement === undefined) continue
    keep(index)
    if (replacement !== "") {
      out.push(replacement)
      at.push(view.at?.[index] ?? index)
    }
    from = index + found.length
  }
  if (from === 0) return undefined
  keep(text.length)
  at.push(view.at?.[text.length] ?? text.length)
  return { text: out.join(""), at: Int32Array.from(at) }
}

const unescaped = (view: TextView, escape: RegExp): TextView =>
  replaceMatches(view, escape, (found) => {
    const code = codeOf(found)
    return code < 0x20 || code > 0x7e ? undefined : String.fromCharCode(code)
  }) ?? view

const named: ReadonlyMap<string, string> = new Map([
  ["\\/", "/"],
  ["&quot;", '"'],
  ["&lt;", "<"],
  ["&gt;", ">"],
  ["&amp;", "&"],
  ["&apos;", "'"]
])

const codeOf = (escape: string): number => {
  const character = named.get(escape)
  if (character !== undefined) return character.charCodeAt(0)
  if (!escape.startsWith("&#")) return Number.parseInt(escape.slice(-2), 16)
  return escape.charAt(2) === "x"
    ? Number.parseInt(escape.slice(3, -1), 16)
    : Number.parseInt(escape.slice(2, -1), 10)
}
