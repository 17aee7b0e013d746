import { isSecretValue, kindOfLabel, type NameKind } from "./findAssignments.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { isKnownFormat } from "./looksRandom.ts"
import { hasDigit, hasLetter, hasSign, isExpression, isPath, isWordLike } from "./opaque.ts"
import { MATCHES_PER_STEP } from "./steps.ts"
import type { TextRange } from "./TextRange.ts"

/** Maximum length of a row, of its cells, and of a head. */
const MAX_ROW = 4_096
const MAX_HEAD = 48
/** Maximum number of cells of a row. */
const MAX_CELLS = 64

/** Words of the other columns of a table of credentials, whose passwords may be plain words. */
const account = /user|login|mail|account|url|site|host|benutzer|usuario|utente|utilisateur/i

interface Row {
  readonly start: number
  readonly text: string
  readonly delimiter: string
}

/**
 * Finds secrets in the columns of tables whose head names them: delimited by commas, semicolons, tabs or bars, or in HTML. In a row of two
 * cells, the first may be the name.
 */
export function* findColumns(text: string): Generator<void, ReadonlyArray<TextRange>> {
  const lines = yield* findInRows(text, linesOf(text))
  return lines.concat(/<tr\b/i.test(text) ? yield* findInRows(text, elementsOf(text)) : [])
}

function* findInRows(text: string, rows: Iterable<Row | undefined>): Generator<void, Array<TextRange>> {
  const found: Array<TextRange> = []
  let columns: ReadonlyArray<readonly [index: number, kind: NameKind]> = []
  let width = 0
  let isAccounts = false
  let count = 0
  for (const row of rows) {
    if (++count % MATCHES_PER_STEP === 0) yield
    const isCut = row !== undefined && (columns.length > 0 || mayBeHead(row))
    const cells = isCut ? cellsOf(row) : []
    if (columns.length > 0 && cells.length === width) {
      for (const [index, kind] of columns) {
        const cell = cells[index]
        if (cell !== undefined && isCellValue(kind, text.slice(cell.start, cell.end), isAccounts))
          found.push(cell)
      }
      continue
    }
    columns = []
    if (!isCut) continue
    const labels = cells.map(({ end, start }) => text.slice(start, end))
    width = cells.length
    isAccounts = labels.some((label) => account.test(label))
    if (isHead(labels)) columns = labels.flatMap(columnOf)
    const [, value] = cells
    const kind = width === 2 ? kindOfLabel(labels[0] ?? "") : undefined
    if (value !== undefined && kind !== undefined && isCellValue(kind, labels[1] ?? "", false))
      found.push(value)
  }
  return found
}

const columnOf = (label: string, index: number): ReadonlyArray<readonly [index: number, kind: NameKind]> => {
  const kind = kindOfLabel(label)
  return kind === undefined ? [] : [[index, kind]]
}

/** Whether a row can be a head: it has a part of a name of secrets, and does not end as code does. */
const mayBeHead = ({ delimiter, text }: Row): boolean =>
  (delimiter === "<" || !/[;,{}()[\]>:]\s*$/.test(text)) && nameParts.test(text)

const nameParts =
  /pass|pw|psk|secret|token|key|cred|auth|mdp|kennwort|contrase|clave|senha|wachtwoord|has[lł]o|heslo|parola|[sş]ifre|lozinka|salasana|jelsz|adgangskode|l[oö]senord|парол|密码|密碼|パスワード|비밀번호/i

/** Whether the cells of a row are a head: short names. */
const isHead = (labels: ReadonlyArray<string>): boolean =>
  labels.length > 1 &&
  labels.every((label) => label.length <= MAX_HEAD && /^(?:[\p{L}_#][\p{L}\p{N}_ .()/#-]*)?$/u.test(label))

const isCellValue = (kind: NameKind, value: string, isAccount: boolean): boolean => {
  if (isPlaceholder(value) || isExpression(value)) return false
  // A pass may also be a ticket.
  if (kind === "pass" && (!isAccount || isWordLike(value))) return false
  if (kind !== "password" && kind !== "pass") return !/\s/.test(value) && isSecretValue(kind, value, false)
  if (value.length < 4 || value.length > 128 || isPath(value) || isKnownFormat(value)) return false
  const isMixed = hasLetter(value) && (hasDigit(value) || hasSign(value))
  return /\s/.test(value)
    ? isMixed && isAccount && value.split(/\s+/).length >= 3
    : (isMixed && value.length >= 6) || (isAccount && /^[\x21-\x7e]{6,}$/.test(value))
}

const delimiters = ["|", "\t", ";", ",", "  "]

/** The lines of a text that have a delimiter. */
function* linesOf(text: string): Generator<Row | undefined> {
  for (let start = 0; start < text.length;) {
    const newline = text.indexOf("\n", start)
    const end = newline === -1 ? text.length : newline
    const line = text.slice(start, Math.min(end, start + MAX_ROW))
    const delimiter = delimiters.find((one) => line.includes(one))
    // Without the rule below a head.
    if (!/^[\s|:+=]*-[\s|:+=-]*$/.test(line))
      yield delimiter === undefined ? undefined : { start, text: line, delimiter }
    start = end + 1
  }
}

/** The rows of tables in HTML. */
function* elementsOf(text: string): Generator<Row> {
  for (const match of text.matchAll(/<tr\b[^<>]{0,200}>((?:(?!<\/?tr\b)[\s\S]){0,4096})/gi)) {
    const [whole, row = ""] = match
    yield { start: match.index + whole.length - row.length, text: row, delimiter: "<" }
  }
}

const element = /<t[hd]\b[^<>]{0,200}>\s*(?:<(?:b|code|span|strong)>)?([^<>]{0,512}?)\s*</gi

/** The cells of a row without their quotation marks and surrounding blanks. */
const cellsOf = ({ delimiter, start, text }: Row): ReadonlyArray<TextRange> => {
  if (delimiter === "  ")
    return Array.from(text.matchAll(/\S{1,256}(?:[ ]\S{1,256})*/g), ({ 0: cell, index }) =>
      trimCell(text, start, index, index + cell.length)
    )
  if (delimiter === "<")
    return Array.from(text.matchAll(element), (match) => {
      const from = start + match.index + match[0].indexOf(">") + 1
      const at = from + text.slice(from - start).indexOf(match[1] ?? "")
      return { start: at, end: at + (match[1] ?? "").length }
    })
  const cells: Array<TextRange> = []
  let from = 0
  /** Whether the cell has only blanks so far. */
  let isBlank = true
  for (let at = 0; at <= text.length && cells.length < MAX_CELLS; at++) {
    const character = text.charAt(at)
    // A quoted cell may contain the delimiter.
    if (character === '"' && delimiter !== "|" && isBlank) {
      const close = text.indexOf('"', at + 1)
      if (close !== -1) at = close
    } else if (character === delimiter || at === text.length) {
      cells.push(trimCell(text, start, from, at))
      from = at + 1
    }
    isBlank = from === at + 1 || (isBlank && /\s/.test(character))
  }
  if (delimiter !== "|") return cells
  // The bars at both ends.
  return cells.filter(
    ({ end, start: first }, index) => first < end || (index > 0 && index < cells.length - 1)
  )
}

const trimCell = (text: string, offset: number, from: number, to: number): TextRange => {
  let start = from
  let end = to
  while (start < end && /[\s"'`*]/.test(text.charAt(start))) start++
  while (end > start && /[\s"'`*]/.test(text.charAt(end - 1))) end--
  return { start: start + offset, end: end + offset }
}
