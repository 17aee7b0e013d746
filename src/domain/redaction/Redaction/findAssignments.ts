import { hasDigit, hasLetter, hasSign, isExpression, isOpaque, isPath, isWordLike } from "./opaque.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { isSecretName, isKeyName } from "./secretNames.ts"
import { isIdentifier, isKnownFormat, looksRandom } from "./looksRandom.ts"
import type { TextRange } from "./TextRange.ts"
import { trimTrailing } from "./trimTrailing.ts"

/** Maximum length of an assigned value. */
const MAX_VALUE = 512

/**
 * A name and a value separated by a sign or a verb such as `is`: in prose, code, command lines, queries, JSON inside strings however often
 * escaped, XML elements.
 */
const assignment =
  /([A-Za-z][\w\u00c0-\u024f.-]{0,80})["'`\]\\]{0,8}([ \t]{0,4}(?:=>|:=|[:=>])|[ \t](?:is|was|ist|lautet|es|est|to|-)(?: now| set to)?:?[ \t]|[ \t]{1,4}(?=["']))[ \t]{0,4}\\{0,7}["'`]{0,3}/gi

/** A quoted value ends at the closing quote, any other at white space or a separator; in a query `&` is a separator. */
const quoted = new RegExp(`[^"'\`\\r\\n\\\\]{4,${MAX_VALUE}}(?=\\\\?["'\`])`, "y")
const inQuery = new RegExp(`[^\\s"'\`,;&<>|\\\\){}\\]]{4,${MAX_VALUE}}`, "y")
const inText = new RegExp(`[^\\s"'\`,;<>|\\\\){}\\]]{4,${MAX_VALUE}}`, "y")

/** Returns the value assigned at an index. */
const valueAt = (text: string, start: number, isQuoted: boolean, sign: string): string | undefined => {
  const forms = [...(isQuoted ? [quoted] : []), sign === "=" ? inQuery : inText]
  for (const form of forms) {
    form.lastIndex = start
    const assigned = form.exec(text)?.[0]
    if (assigned !== undefined && !(form === quoted && /\s/.test(assigned))) return assigned
  }
  return undefined
}

const interesting =
  /pass|pwd|secret|token|key|credential|auth|session|cookie|\bpw\b|\bpin\b|geheim|kennwort|clave|contrase|signature|jwt|sid\b/i

/** Finds values that are assigned to secret names and look like secrets. */
export const findAssignments = (text: string): ReadonlyArray<TextRange> => {
  if (!interesting.test(text)) return []
  const found: Array<TextRange> = []
  assignment.lastIndex = 0
  for (let match = assignment.exec(text); match !== null; match = assignment.exec(text)) {
    const [whole, written = "", sign = ""] = match
    // The `n` of an escaped line break `\\n` is not part of the name.
    const name = text.charAt(match.index - 1) === "\\" ? written.slice(1) : written
    const kind = kindOf(text, match.index, name)
    const start = match.index + whole.length
    if (kind === undefined || (sign.trim() === "to" && !isChange(text, match.index))) continue
    const isQuoted = /["'`]$/.test(whole)
    const assigned = valueAt(text, start, isQuoted, sign)
    if (assigned === undefined) {
      assignment.lastIndex = Math.max(start - 1, match.index + 1)
      continue
    }
    const bare = isQuoted || sign === "=" ? assigned : trimTrailing(assigned, ".!?:")
    const isCode = isQuoted || (sign === "=" && text.charAt(start - 1) === "=")
    if (!isFalsePositive(kind, name, sign.trim(), bare, isQuoted) && isSecretValue(kind, bare, isCode))
      found.push({ start, end: start + bare.length })
    assignment.lastIndex = start + bare.length
  }
  return found
}

/**
 * Whether an assignment is only apparent: a dash or a verb (`pass "all"`) in prose; in code another name (`password=db_password`), or a
 * call or subscript that yields the secret.
 */
const isFalsePositive = (
  kind: NameKind,
  name: string,
  sign: string,
  assigned: string,
  isQuoted: boolean
): boolean =>
  (sign === "-" && !looksRandom(assigned)) ||
  (sign === "" && kind === "pass") ||
  (!isQuoted &&
    (isExpression(assigned) ||
      /[_.](?:passw(?:or)?d|pwd|pass|secret|token|key)$/i.test(assigned) ||
      name.toLowerCase().endsWith(assigned.toLowerCase())))

/** Number of characters inspected before a name. */
const BEFORE = 48

const before = (text: string, at: number): string => text.slice(Math.max(0, at - BEFORE), at)

/** Matches `changed the password to`, but not `a password to`. */
const isChange = (text: string, at: number): boolean =>
  /\b(?:chang|set|reset|updat|switch)[a-z]{0,5}\b[^.!?\n]{0,24}$/i.test(before(text, at))

/**
 * - `password`: may be short, and may be a word with a number
 * - `pass`: the same, but the name can also mean an entry pass or a passed test: the value must not look like words
 * - `key`: any opaque value, including identifiers
 * - `token`: any opaque value except identifiers: those of tokens and sessions are not secret
 */
type NameKind = "password" | "pass" | "key" | "token"

const passwordNames =
  /(?:passw(?:or)?d|passwort|passphrase|passcode|pwd|kennwort|contrase\u00f1a|(?:^|[\W_])(?:clave|pw)|(?:[\W_]|db|user|admin|root)pass)$/i
const camelPasswordNames = /[a-z](?:Pass|Pw)$/

/** Returns what kind of secret a name's last words denote: `the admin password`, `API key`. */
const kindOf = (text: string, at: number, name: string): NameKind | undefined => {
  if (passwordNames.test(name) || camelPasswordNames.test(name)) return "password"
  if (/^pass$/i.test(name)) {
    return /\b(?:user|login|e?mail|account|benutzer)/i.test(before(text, at)) ? "password" : "pass"
  }
  // A cookie's value contains names and values, which findAuthorizations separates.
  if (/cookie$/i.test(name)) return undefined
  if (isSecretName(name)) return isKeyName(name) ? "key" : "token"
  // The first words of a name with several words precede the match.
  if (/^passe$/i.test(name) && /\bmots? de $/i.test(before(text, at))) return "password"
  return /^key$/i.test(name) &&
    /\b(?:api|access|secret|private|auth|signing|encryption|master|account|shared)[ -]$/i.test(
      before(text, at)
    )
    ? "key"
    : undefined
}

/** Minimum length of a password and of any other secret. */
const MIN_PASSWORD = 6
const MIN_SECRET = 10
/**
 * Minimum length of a password of letters alone, in quotes or directly after the sign: in prose, the next word is as often an ordinary one.
 */
const MIN_WORDS = 8

const isSecretValue = (kind: NameKind, assigned: string, isCode: boolean): boolean => {
  if (isPlaceholder(assigned) || isKnownFormat(assigned) || isPath(assigned)) return false
  if (kind === "key") return assigned.length >= MIN_SECRET && isOpaque(assigned)
  if (kind === "token") return assigned.length >= MIN_SECRET && isOpaque(assigned) && !isIdentifier(assigned)
  if (assigned.length < MIN_PASSWORD) return false
  if (/^[0-9]{1,4}[-./:][0-9]{1,2}[-./:]?[0-9:TZ.]*$/.test(assigned)) return false
  if (kind === "pass" && isWordLike(assigned) && (!isCode || /[^0-9A-Za-z]/.test(assigned))) return false
  return (
    (hasLetter(assigned) && (hasDigit(assigned) || hasSign(assigned))) ||
    (isCode && assigned.length >= MIN_WORDS && !/[./]/.test(assigned))
  )
}

/** Whether a whole field is a secret: a random-looking token under a secret name. */
export const isSecretField = (name: string, text: string): boolean =>
  /^[\x21-\x7e]{16,512}$/.test(text) && isSecretName(name) && !isPlaceholder(text) && looksRandom(text)
