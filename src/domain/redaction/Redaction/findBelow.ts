import { isSecretValue, kindOfLabel, type NameKind } from "./findAssignments.ts"
import { isExpression, isWordLike } from "./opaque.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { MATCHES_PER_STEP } from "./steps.ts"
import type { TextRange } from "./TextRange.ts"

/** Characters inspected at the end of a line for a label. */
const MAX_LABEL = 96

/** Maximum number of values in a list or block under one label. */
const MAX_VALUES = 64

/** The end of a line: a label, a verb, a sign, and the mark of a block of YAML. */
const labelEnd =
  /(?:^|[^\p{L}\p{N}_.-])((?:[\p{L}][\p{L}\p{N}_.-]{0,40}[ ]){0,3}[\p{L}][\p{L}\p{N}_.-]{0,64})["'`*\])]{0,3}(?:[ ]\([^()\n]{1,24}\))?(?:[ ](?:is|are|ist|lautet|es|est|è|é|är|er|jest|je))?[ \t]{0,2}([:：=]?)(?:["'`*]{0,2}|[ ]{0,2}(?:"""|'''))[ \t]{0,4}(?:[|>][-+]?[0-9]?)?[ \t]{0,4}\r?$/u

/** A line with one value: a mark of a list, quotation marks, the value. */
const valueLine =
  /[ \t>]{0,64}((?:[-*•]|[0-9]{1,2}[.)])[ \t]{1,4})?(?:[brufBRUF]{1,2}(?=["'`]))?["'`]{0,3}([^\s"'`]{6,4096}?)["'`]{0,3}[,;]?[ \t]{0,8}\r?(?:\n|$)/y

/** A line without text. */
const blankLine = /[ \t]{0,64}\r?\n/y

/** Finds values on the lines below their names: after a label, in a block or list of YAML, and in the parts of a form. */
export function* findBelow(text: string): Generator<void, ReadonlyArray<TextRange>> {
  const found: Array<TextRange> = []
  let lines = 0
  for (let lineStart = 0, at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", lineStart)) {
    if (++lines % MATCHES_PER_STEP === 0) yield
    if (mayEndLabel(text, lineStart, at)) {
      const match = labelEnd.exec(text.slice(Math.max(lineStart, at - MAX_LABEL), at))
      const label = match?.[1] ?? ""
      // Without a sign, a line that ends in such a word is a sentence, unless it has no other words.
      const isLabel = match !== null && (match[2] !== "" || label.length >= at - lineStart - 1)
      const kind = isLabel ? kindOfLabel(label) : undefined
      if (kind !== undefined) for (const range of valuesAt(text, at + 1, kind)) found.push(range)
    }
    lineStart = at + 1
  }
  if (text.includes("form-data")) for (const range of findFormParts(text)) found.push(range)
  return found
}

/** Whether a line can end in a label: with a sign, or as a short line without one. Most lines of code cannot. */
const mayEndLabel = (text: string, start: number, end: number): boolean => {
  let at = end - 1
  while (at > start && isBlank(text.charCodeAt(at))) at--
  const last = text.charAt(at)
  return (
    signs.has(last) ||
    /"""|'''/.test(text.slice(at - 2, at + 1)) ||
    (end - start <= MAX_BARE_LABEL && !/[\s;,{}()[\].!?&/\\]/.test(last))
  )
}

/** Signs after a label, and marks of blocks and of emphasis. */
const signs = new Set([":", "：", "=", "|", ">", "-", "+", "*"])

/** Maximum length of a line that is a label without a sign. */
const MAX_BARE_LABEL = 40

const isBlank = (code: number): boolean => code === 0x20 || code === 0x09 || code === 0x0d

/** The values on the lines from an index on: one, or the items of a list. */
const valuesAt = (text: string, from: number, kind: NameKind): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  blankLine.lastIndex = from
  let at = blankLine.test(text) ? blankLine.lastIndex : from
  for (let values = 0; values < MAX_VALUES; values++) {
    valueLine.lastIndex = at
    const match = valueLine.exec(text)
    const value = match?.[2] ?? ""
    const isItem = match?.[1] !== undefined
    if (match === null || (values > 0 && !isItem) || !isValue(kind, value)) return found
    const start = match.index + match[0].lastIndexOf(value)
    found.push({ start, end: start + value.length })
    at = valueLine.lastIndex
    if (!isItem) return found
  }
  return found
}

/** Whether a line of its own is a secret rather than a word, a heading or another name. */
const isValue = (kind: NameKind, value: string): boolean =>
  !/[:=]$|^(?:[a-z]+:\/\/|[#@<>{[(|&])|=>|^[\w.-]+[:=]/i.test(value) &&
  !isExpression(value) &&
  isSecretValue(kind, value, false) &&
  !(isWordLike(value) && /[-_./:]/.test(value))

/** A part of a form with its name and its value. */
const formPart =
  /\bname="([^"\r\n]{1,64})"[^\r\n]{0,200}\r?\n(?:[A-Za-z-]{1,40}:[^\r\n]{0,200}\r?\n){0,4}\r?\n([^\r\n]{4,4096})\r?\n--/g

/** Finds the values of secret fields of a form (`multipart/form-data`). */
const findFormParts = (text: string): ReadonlyArray<TextRange> =>
  Array.from(text.matchAll(formPart)).flatMap((match) => {
    const [, name = "", value = ""] = match
    const kind = kindOfLabel(name)
    if (kind === undefined || isPlaceholder(value) || !isSecretValue(kind, value, true)) return []
    const start = match.index + match[0].lastIndexOf(value)
    return [{ start, end: start + value.length }]
  })
