/** The languages whose texts are coloured. */
export type Language = "json" | "shell" | "sql" | "yaml"

/** `name`: the key of a value. `value`: a number, a constant or a variable. */
export type TokenKind = "comment" | "keyword" | "name" | "string" | "value"

/** A coloured part of a text, from a position up to another one. */
export interface Token {
  readonly kind: TokenKind
  readonly from: number
  readonly to: number
}

interface Grammar {
  /** What begins a comment up to the end of the line. `#` does so only after white space. */
  readonly lineComment?: "#" | "--"
  readonly hasBlockComments?: true
  readonly quotes: string
  /** The quotes in which a backslash escapes the next character. */
  readonly escaping: string
  /** Whether a text in quotes goes on over line breaks. */
  readonly isMultiline?: true
  /** Whether quotes inside of words are apostrophes. */
  readonly hasPlainTexts?: true
  readonly hasVariables?: true
  /** In lower case. */
  readonly keywords: ReadonlySet<string>
  readonly constants: ReadonlySet<string>
}

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "))

const grammars: Readonly<Record<Language, Grammar>> = {
  json: { quotes: `"`, escaping: `"`, keywords: new Set(), constants: words("true false null") },
  shell: {
    lineComment: "#",
    quotes: `"'\``,
    escaping: `"\``,
    isMultiline: true,
    hasPlainTexts: true,
    hasVariables: true,
    keywords: words(
      "if then else elif fi for while until do done case esac in function select return exit export local readonly unset eval exec source set trap sudo rm dd mkfs chmod chown kill curl wget"
    ),
    constants: words("true false")
  },
  sql: {
    lineComment: "--",
    hasBlockComments: true,
    quotes: `"'\``,
    escaping: "",
    isMultiline: true,
    keywords: words(
      "add all alter analyze and any as asc begin between by call cascade case check column commit concurrently constraint copy create cross database declare default delete desc distinct do drop each else end except execute exists explain extension fetch for foreign from full function grant group having if ilike in index inner insert intersect into is join key lateral left like limit lock materialized merge natural not of offset on only or order outer over partition perform primary procedure recursive references rename replace restrict returning returns revoke right role rollback row rows schema select sequence set some table temporary then to transaction trigger truncate type union unique update user using vacuum values view when where window with"
    ),
    constants: words("true false null")
  },
  yaml: {
    lineComment: "#",
    quotes: `"'`,
    escaping: `"`,
    hasPlainTexts: true,
    keywords: new Set(),
    constants: words("true false null yes no on off")
  }
}

const WORD = /[\p{L}\p{N}_]+/uy
const VARIABLE = /\$(?:\{?[\p{L}\p{N}_]+|[@*#?!$-])/uy
/** The key at the start of a line, without its colon. */
const YAML_KEY = /[^\s:#'"{}[\],&*!|>%@`-][^:\n#]*(?=:(?:\s|$))/uy
const BLANKS = /\s*/uy

/** The text that a sticky pattern matches at a position; empty if there is none. */
const matchAt = (pattern: RegExp, text: string, at: number): string => {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0] ?? ""
}

/** The position of a mark, or the end of the text. */
const placeOf = (mark: string, text: string, from: number): number => {
  const place = text.indexOf(mark, from)
  return place === -1 ? text.length : place
}

/** The position after a text in quotes that begins at `from`. */
const endOfString = (text: string, from: number, quote: string, grammar: Grammar): number => {
  const escapes = grammar.escaping.includes(quote)
  for (let at = from + 1; at < text.length; at++) {
    const character = text.charAt(at)
    if (character === quote) return at + 1
    if (character === "\n" && grammar.isMultiline !== true) return at
    if (character === "\\" && escapes) at++
  }
  return text.length
}

/**
 * The tokens of a text, in order. Each character is looked at a bounded number of times, so that a hostile text cannot block the page. Faulty
 * texts have tokens too.
 */
export const findTokens = (text: string, language: Language): ReadonlyArray<Token> => {
  const grammar = grammars[language]
  const tokens: Array<Token> = []
  let at = 0
  let isLineStart = true
  const push = (kind: TokenKind, to: number) => {
    tokens.push({ kind, from: at, to })
    at = to
    isLineStart = false
  }
  while (at < text.length) {
    const character = text.charAt(at)
    const isAfterBlank = at === 0 || /\s/u.test(text.charAt(at - 1))
    if (character === "\n") {
      isLineStart = true
      at++
      continue
    }
    const isIndent = character === " " || character === "\t" || (character === "-" && language === "yaml")
    if (isLineStart && isIndent && !text.startsWith("--", at)) {
      at++
      continue
    }
    const { lineComment } = grammar
    if (
      lineComment !== undefined &&
      text.startsWith(lineComment, at) &&
      (lineComment !== "#" || isAfterBlank)
    ) {
      push("comment", placeOf("\n", text, at))
      continue
    }
    if (grammar.hasBlockComments === true && text.startsWith("/*", at)) {
      push("comment", Math.min(placeOf("*/", text, at + 2) + 2, text.length))
      continue
    }
    const key = isLineStart && language === "yaml" ? matchAt(YAML_KEY, text, at) : ""
    if (key !== "") {
      push("name", at + key.length)
      continue
    }
    const isQuote = grammar.quotes.includes(character)
    const isApostrophe = grammar.hasPlainTexts === true && /[\p{L}\p{N}]/u.test(text.charAt(at - 1))
    if (isQuote && !isApostrophe) {
      const end = endOfString(text, at, character, grammar)
      const next = end + matchAt(BLANKS, text, end).length
      const isName = (language === "json" || language === "yaml") && text.charAt(next) === ":"
      push(isName ? "name" : "string", end)
      continue
    }
    const variable = grammar.hasVariables === true && character === "$" ? matchAt(VARIABLE, text, at) : ""
    if (variable !== "") {
      push("value", at + variable.length)
      continue
    }
    const word = matchAt(WORD, text, at)
    isLineStart = false
    if (word === "") at++
    else {
      const kind = kindOfWord(word.toLowerCase(), grammar)
      if (kind === undefined) at += word.length
      else push(kind, at + word.length)
    }
  }
  return tokens
}

const kindOfWord = (word: string, { constants, keywords }: Grammar): TokenKind | undefined => {
  if (keywords.has(word)) return "keyword"
  return constants.has(word) || /^\d/u.test(word) ? "value" : undefined
}
