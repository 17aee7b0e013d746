import { hasDigit, hasLetter, hasSign, isExpression, isOpaque, isPath, isWordLike } from "./opaque.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { isSecretName, isKeyName } from "./secretNames.ts"
import { isIdentifier, isKnownFormat, looksRandom } from "./looksRandom.ts"
import type { TextRange } from "./TextRange.ts"
import { trimTrailing } from "./trimTrailing.ts"

/** Most characters of a value that is given to a name. */
const MAX_VALUE = 512

/**
 * A name and a value with a sign or an `is` between them: in prose, code, command lines, queries, JSON in a text however often
 * escaped, elements of XML.
 */
const assignment =
  /([A-Za-z][\w\u00c0-\u024f.-]{0,80})["'`\]\\]{0,8}([ \t]{0,4}(?:=>|:=|[:=>])|[ \t](?:is|was|ist|lautet|es|est|to|-)(?: now| set to)?:?[ \t]|[ \t]{1,4}(?=["']))[ \t]{0,4}\\{0,7}["'`]{0,3}/gi

/** A value in quotes goes to the closing one; else white space or a sign between members ends it, of which `&` is one in a query. */
const quoted = new RegExp(`[^"'\`\\r\\n\\\\]{4,${MAX_VALUE}}(?=\\\\?["'\`])`, "y")
const inQuery = new RegExp(`[^\\s"'\`,;&<>|\\\\){}\\]]{4,${MAX_VALUE}}`, "y")
const inText = new RegExp(`[^\\s"'\`,;<>|\\\\){}\\]]{4,${MAX_VALUE}}`, "y")

/** What is given at a place. */
const valueAt = (text: string, start: number, isQuoted: boolean, sign: string): string | undefined => {
  const forms = [...(isQuoted ? [quoted] : []), sign === "=" ? inQuery : inText]
  for (const form of forms) {
    form.lastIndex = start
    const given = form.exec(text)?.[0]
    if (given !== undefined && !(form === quoted && /\s/.test(given))) return given
  }
  return undefined
}

const interesting =
  /pass|pwd|secret|token|key|credential|auth|session|cookie|\bpw\b|\bpin\b|geheim|kennwort|clave|contrase|signature|jwt|sid\b/i

/** What is given to a name that secrets are kept under, where the value agrees. */
export const findAssignments = (text: string): ReadonlyArray<TextRange> => {
  if (!interesting.test(text)) return []
  const found: Array<TextRange> = []
  assignment.lastIndex = 0
  for (let match = assignment.exec(text); match !== null; match = assignment.exec(text)) {
    const [whole, written = "", sign = ""] = match
    // The `n` of a line end that is written as `\\n` is no part of the name.
    const name = text.charAt(match.index - 1) === "\\" ? written.slice(1) : written
    const kind = kindOf(text, match.index, name)
    const start = match.index + whole.length
    if (kind === undefined || (sign.trim() === "to" && !isChange(text, match.index))) continue
    const isQuoted = /["'`]$/.test(whole)
    const given = valueAt(text, start, isQuoted, sign)
    if (given === undefined) {
      assignment.lastIndex = Math.max(start - 1, match.index + 1)
      continue
    }
    const bare = isQuoted || sign === "=" ? given : trimTrailing(given, ".!?:")
    const isCode = isQuoted || (sign === "=" && text.charAt(start - 1) === "=")
    if (!isFalsePositive(kind, name, sign.trim(), bare, isQuoted) && isSecretValue(kind, bare, isCode))
      found.push({ start, end: start + bare.length })
    assignment.lastIndex = start + bare.length
  }
  return found
}

/**
 * What only looks like an assignment: a dash or a verb (`pass "all"`) in prose, and in code another name (`password=db_password`), or a
 * call or an item whose answer is the secret.
 */
const isFalsePositive = (
  kind: NameKind,
  name: string,
  sign: string,
  given: string,
  isQuoted: boolean
): boolean =>
  (sign === "-" && !looksRandom(given)) ||
  (sign === "" && kind === "pass") ||
  (!isQuoted &&
    (isExpression(given) ||
      /[_.](?:passw(?:or)?d|pwd|pass|secret|token|key)$/i.test(given) ||
      name.toLowerCase().endsWith(given.toLowerCase())))

/** Characters before a name that are looked at. */
const BEFORE = 48

const before = (text: string, at: number): string => text.slice(Math.max(0, at - BEFORE), at)

/** `changed the password to`, unlike `a password to`. */
const isChange = (text: string, at: number): boolean =>
  /\b(?:chang|set|reset|updat|switch)[a-z]{0,5}\b[^.!?\n]{0,24}$/i.test(before(text, at))

/**
 * - `password`: may be short, and a word with a number
 * - `pass`: the same, but the name is also that of what lets one in or of a test that went well: what is given looks like no words
 * - `key`: whatever is opaque, an identifier too
 * - `token`: the same, but identifiers of tokens and sessions keep nothing shut
 */
type NameKind = "password" | "pass" | "key" | "token"

const passwordNames =
  /(?:passw(?:or)?d|passwort|passphrase|passcode|pwd|kennwort|contrase\u00f1a|(?:^|[\W_])(?:clave|pw)|(?:[\W_]|db|user|admin|root)pass)$/i
const camelPasswordNames = /[a-z](?:Pass|Pw)$/

/** What is kept under the name that ends here, by its last words: `the admin password`, `API key`. */
const kindOf = (text: string, at: number, name: string): NameKind | undefined => {
  if (passwordNames.test(name) || camelPasswordNames.test(name)) return "password"
  if (/^pass$/i.test(name)) {
    return /\b(?:user|login|e?mail|account|benutzer)/i.test(before(text, at)) ? "password" : "pass"
  }
  // What a cookie holds are names and values, which are told apart where headers are.
  if (/cookie$/i.test(name)) return undefined
  if (isSecretName(name)) return isKeyName(name) ? "key" : "token"
  // Names of several words have their first ones before the match.
  if (/^passe$/i.test(name) && /\bmots? de $/i.test(before(text, at))) return "password"
  return /^key$/i.test(name) &&
    /\b(?:api|access|secret|private|auth|signing|encryption|master|account|shared)[ -]$/i.test(
      before(text, at)
    )
    ? "key"
    : undefined
}

/** Shortest password and shortest other secret. */
const MIN_PASSWORD = 6
const MIN_SECRET = 10
/** Shortest password of letters alone: in quotes, or right behind the sign. In prose a word follows as often as not. */
const MIN_WORDS = 8

const isSecretValue = (kind: NameKind, given: string, isCode: boolean): boolean => {
  if (isPlaceholder(given) || isKnownFormat(given) || isPath(given)) return false
  if (kind === "key") return given.length >= MIN_SECRET && isOpaque(given)
  if (kind === "token") return given.length >= MIN_SECRET && isOpaque(given) && !isIdentifier(given)
  if (given.length < MIN_PASSWORD) return false
  if (/^[0-9]{1,4}[-./:][0-9]{1,2}[-./:]?[0-9:TZ.]*$/.test(given)) return false
  if (kind === "pass" && isWordLike(given) && (!isCode || /[^0-9A-Za-z]/.test(given))) return false
  return (
    (hasLetter(given) && (hasDigit(given) || hasSign(given))) ||
    (isCode && given.length >= MIN_WORDS && !/[./]/.test(given))
  )
}

/** Whether the whole value of a field is a secret: a token that looks drawn, under a name that secrets are kept under. */
export const isSecretField = (name: string, text: string): boolean =>
  /^[\x21-\x7e]{16,512}$/.test(text) && isSecretName(name) && !isPlaceholder(text) && looksRandom(text)
