import { isPlaceholder } from "./placeholder.ts"
import { isSecretName } from "./names.ts"
import { looksDrawn } from "./Randomness.ts"
import type { Span } from "./Span.ts"

/** Most characters of a value that is given to a name. */
const MAX_VALUE = 512

/** Authorization as a header or in prose: a scheme and what follows it. */
const scheme =
  /\b(?:(?:Bearer|Token|ApiKey|Api-Key|SSWS|GenieKey|Negotiate|JWT)[ \t]{1,3}(?:token[=:][ \t]?)?["']?([0-9A-Za-z._~+/=:%-]{8,2048})|Basic[ \t]{1,3}([0-9A-Za-z+/=_-]{8,1024}))/gi

/** What follows the name of a scheme, where it is a credential: in prose that is often a word. */
const findSchemes = (text: string): ReadonlyArray<Span> => {
  const found: Array<Span> = []
  for (const match of text.matchAll(scheme)) {
    const [whole, credential, basic] = match
    const value = credential ?? basic ?? ""
    const end = match.index + whole.length
    const isSecret = basic === undefined ? isOpaque(trimmed(value)) : isBasic(basic)
    if (isSecret) found.push({ start: end - value.length, end: end - (value.length - trimmed(value).length) })
  }
  return found
}

const trimmed = (value: string): string => value.replace(/[.,:]+$/, "")

/** Base64 of a name and a password. */
const isBasic = (value: string): boolean => {
  const decoded = Buffer.from(value, "base64").toString("latin1")
  // oxlint-disable-next-line no-control-regex -- a name and a password are visible
  return /^[^\u0000-\u001f\u007f:]{0,200}:[^\u0000-\u001f\u007f]{1,}$/.test(decoded)
}

/** A credential rather than a word: drawn, or long enough and of more than letters. */
const isOpaque = (value: string): boolean =>
  !isPlaceholder(value) &&
  (looksDrawn(value) || (value.length >= 10 && hasDigit(value) && hasLetter(value) && !isWritten(value)))

const hasDigit = (text: string): boolean => /[0-9]/.test(text)
const hasLetter = (text: string): boolean => /[A-Za-z]/.test(text)

/** Words and numbers with marks between them (`order-4411`, `v2.0`, `monday_2026`), as people name things. */
const isWritten = (text: string): boolean =>
  /^(?:[A-Za-z]?[a-z]+[0-9]{0,4}|[A-Z]+[0-9]{0,4}|[0-9]+)(?:[-_./:](?:[A-Za-z]?[a-z]+[0-9]{0,4}|[A-Z]+[0-9]{0,4}|[0-9]+))*$/.test(
    text
  )

/** Headers that carry a credential as a whole, and cookies, which carry some. */
const header =
  /\b(?:proxy-)?authorization["']?[ \t]{0,3}[:=][ \t]{0,3}["']?(?:(?:Digest|AWS4-HMAC-SHA256|Hawk|OAuth|Signature|[A-Z][\w-]{1,30})[ \t]{1,3})?([^\r\n"']{8,2048})|\b(?:set-)?cookie["']?[ \t]{0,3}:[ \t]{0,3}["']?([^\r\n"']{4,4096})/gi

const findHeaders = (text: string): ReadonlyArray<Span> => {
  const found: Array<Span> = []
  for (const match of text.matchAll(header)) {
    const [whole, credential, cookies] = match
    const end = match.index + whole.length
    if (credential !== undefined) {
      const value = trimmed(credential.trimEnd())
      const start = end - credential.length
      if (
        !/\s/.test(value)
          ? isOpaque(value) || isLong(value)
          : /(?:signature|response|mac|oauth_\w+)="?[^\s",]{8,}/i.test(value)
      ) {
        found.push({ start, end: start + value.length })
      }
    } else if (cookies !== undefined) {
      const start = end - cookies.length
      for (const pair of cookies.matchAll(/([\w.-]{1,128})=([^;\s,]{8,2048})/g)) {
        const value = pair[2] ?? ""
        if (isPlaceholder(value) || !(isOpaque(value) || looksDrawn(value))) continue
        const at = start + pair.index + pair[0].length - value.length
        found.push({ start: at, end: at + value.length })
      }
    }
  }
  return found
}

const isLong = (value: string): boolean =>
  value.length >= 20 && hasDigit(value) && !isWritten(value) && !isPlaceholder(value)

/**
 * A name and a value with a sign or an `is` between them: in prose, code, command lines, queries, JSON in a text however often
 * escaped, elements of XML.
 */
const assignment =
  /([A-Za-z][\w.-]{0,80})["'`\]\\]{0,8}([ \t]{0,4}(?:=>|:=|[:=>])|[ \t](?:is|was|ist|lautet)(?: now| set to)?:?[ \t]|[ \t]{1,4}(?=["']))[ \t]{0,4}\\{0,7}["'`]{0,3}/gi

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
  /pass|pwd|secret|token|key|credential|auth|session|cookie|\bpw\b|\bpin\b|geheim|kennwort|clave|contrase|motdepasse|signature|jwt|sid\b/i

const findAssigned = (text: string): ReadonlyArray<Span> => {
  if (!interesting.test(text)) return []
  const found: Array<Span> = []
  assignment.lastIndex = 0
  for (let match = assignment.exec(text); match !== null; match = assignment.exec(text)) {
    const [whole, written = "", sign = ""] = match
    // The `n` of a line end that is written as `\\n` is no part of the name.
    const name = text.charAt(match.index - 1) === "\\" ? written.slice(1) : written
    const kind = kindOf(text, match.index, name)
    const start = match.index + whole.length
    if (kind === undefined) continue
    const isQuoted = /["'`]$/.test(whole)
    const given = valueAt(text, start, isQuoted, sign)
    if (given === undefined) {
      assignment.lastIndex = Math.max(start - 1, match.index + 1)
      continue
    }
    const bare = isQuoted || sign === "=" ? given : given.replace(/[.!?:]+$/, "")
    if (isSecretValue(kind, bare, isQuoted || (sign === "=" && text.charAt(start - 1) === "=")))
      found.push({ start, end: start + bare.length })
    assignment.lastIndex = start + bare.length
  }
  return found
}

type NameKind = "password" | "secret"

const passwordNames = /(?:pass(?:word|wd|wort|phrase)?|pwd|kennwort|contraseña|clave|mot de passe|\bpw)$/i

/** What is kept under the name that ends here, by its last words: `the admin password`, `API key`. */
const kindOf = (text: string, at: number, name: string): NameKind | undefined => {
  if (passwordNames.test(name)) return "password"
  // What a cookie holds are names and values, which are told apart where headers are.
  if (/cookie$/i.test(name)) return undefined
  if (isSecretName(name)) return "secret"
  // Names of two words have their first one before the match.
  const before = text.slice(Math.max(0, at - 20), at)
  return /^key$/i.test(name) &&
    /\b(?:api|access|secret|private|auth|signing|encryption|master|account|shared)[ -]$/i.test(before)
    ? "secret"
    : undefined
}

/** Shortest password and shortest other secret. */
const MIN_PASSWORD = 6
const MIN_SECRET = 10
/** Shortest password of letters alone: in quotes, or right behind the sign. In prose a word follows as often as not. */
const MIN_WORDS = 8

const isSecretValue = (kind: NameKind, given: string, isCode: boolean): boolean => {
  if (isPlaceholder(given)) return false
  if (kind === "secret") return given.length >= MIN_SECRET && isOpaque(given)
  if (given.length < MIN_PASSWORD) return false
  if (/^[0-9]{1,4}[-./:][0-9]{1,2}[-./:]?[0-9:TZ.]*$/.test(given)) return false
  if (/[[(]$|[\w)]\(/.test(given)) return false
  return (
    (hasLetter(given) && (hasDigit(given) || /[!@#$%^*?~+]/.test(given))) ||
    (isCode && given.length >= MIN_WORDS && !/[./]/.test(given))
  )
}

/** `--password X`, `-u user:pass` on a command line. */
const option =
  /(?:^|\s)(?:--(?:password|passwd|token|secret|api-key|auth-token|access-token)[ \t]+|(?:-u|--user)[ \t]+["']?[\w.@-]{1,64}:)["']?([^\s"']{4,512})/g

const findOptions = (text: string): ReadonlyArray<Span> => {
  if (!/(?:^|\s)(?:--|-u)/.test(text)) return []
  const found: Array<Span> = []
  for (const match of text.matchAll(option)) {
    const given = match[1] ?? ""
    const end = match.index + match[0].length
    if (!isPlaceholder(given) && (hasDigit(given) || looksDrawn(given) || /[!@#$%^*?~+]/.test(given))) {
      found.push({ start: end - given.length, end })
    }
  }
  return found
}

/** What is given to a name that secrets are kept under, where the value agrees. */
export const findAssignments = (text: string): ReadonlyArray<Span> => [
  ...(/bearer|basic|token|key|ssws|negotiate|jwt/i.test(text) ? findSchemes(text) : []),
  ...(/authorization|cookie/i.test(text) ? findHeaders(text) : []),
  ...findAssigned(text),
  ...findOptions(text)
]

/** Whether the whole value of a field is a secret: a token that looks drawn, under a name that secrets are kept under. */
export const isSecretField = (name: string, text: string): boolean =>
  /^[\x21-\x7e]{16,512}$/.test(text) && isSecretName(name) && !isPlaceholder(text) && looksDrawn(text)
