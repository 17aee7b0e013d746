import { hasDigit, hasLetter, hasSign, isExpression, isOpaque, isPath, isWordLike } from "./opaque.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { isSecretName, isKeyName, isSomeKeyName } from "./secretNames.ts"
import { isIdentifier, isKnownFormat, isUuid, looksRandom } from "./looksRandom.ts"
import type { TextRange } from "./TextRange.ts"
import { trimTrailing } from "./trimTrailing.ts"

/** Maximum length of an assigned value. */
const MAX_VALUE = 512

/**
 * A name and a value separated by a sign or a verb such as `is`: in prose, code, command lines, queries, JSON inside strings however often
 * escaped, XML elements.
 */
const assignment =
  /(?<![A-Za-z0-9])([A-Za-z][\w\u00c0-\u024f.-]{0,80})["'`\]\\]{0,8}([ \t]{0,4}(?:=>|:=|[:=>])|[\s,]{0,24}["'`]?\bvalue["'`]?[ \t]{0,3}[:=]|[ \t]{0,2},[ \t]{0,2}(?=["'`])|\s{0,2}\{\s{0,12}default[ \t]{0,3}=|<\/(?:key|name)>\s{0,24}<(?:string|value)>|[ \t](?:is|was|ist|lautet|es|est|to|-)(?: now| set to)?:?[ \t]|[ \t]{1,4}(?=["']))[ \t]{0,4}\\{0,7}["'`]{0,3}/gi

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

/** Whether a name is the last part of a longer one, as in `AWS::IAM::AccessKey` or `arn:aws:secretsmanager:…:secret:db`. */
const isPartOfResourceName = (text: string, at: number): boolean =>
  text.charAt(at - 1) === ":" &&
  (text.charAt(at - 2) === ":" || /\b(?:arn|urn):[\w:*-]{1,80}$/.test(text.slice(Math.max(0, at - 90), at)))

/** Literals of which a text must contain one, in any case: parts of the names of secrets. */
export const assignmentTriggers = [
  ..."pass pwd psw psk secret token key credential creds auth session cookie pw _pat pat= pat: geheim kennwort clave contrase signature jwt".split(
    " "
  ),
  ..."senha wachtwoord hasł haslo heslo parola şifre sifre lozinka geslo salasana jelsz adgangskode lösenord losenord seed mnemonic".split(
    " "
  ),
  ..."mdp totp connectionstring sid= sid: sid\" sid'".split(" ")
]

/** Finds values that are assigned to secret names and look like secrets. */
export const findAssignments = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  assignment.lastIndex = 0
  for (let match = assignment.exec(text); match !== null; match = assignment.exec(text)) {
    const [whole, written = "", sign = ""] = match
    // The `n` of an escaped line break `\\n` is not part of the name.
    const name = text.charAt(match.index - 1) === "\\" ? written.slice(1) : written
    const kind = kindOf(text, match.index, name)
    const start = match.index + whole.length
    if (isPartOfResourceName(text, match.index) || text.endsWith("${", match.index)) {
      assignment.lastIndex = Math.max(start - 1, match.index + 1)
      continue
    }
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
  // An empty value and the next argument, or an option.
  /^(?:[,;:)\]}]|--)/.test(assigned) ||
  // A list of names, `["password", "token"]`, unless the value could not be a name.
  (sign === "," &&
    (isExpression(assigned) || (!looksRandom(assigned) && !(hasDigit(assigned) && hasLetter(assigned))))) ||
  // The host after a placeholder, as in `https://<user>:<password>@host`.
  (sign === ">" && assigned.startsWith("@")) ||
  (!isQuoted &&
    (isExpression(assigned) ||
      /[_.](?:passw(?:or)?d|pwd|pass|secret|token|key)$/i.test(assigned) ||
      // Words joined as in a variable or a property of an object.
      /^[A-Za-z]\w*[a-z0-9](?:Password|Secret|Token|Key)$|^[A-Za-z]+(?:_[A-Za-z]+)+$|^[*&]?(?:[A-Za-z_]\w*\.){1,}[A-Z]\w*$|^(?:[a-z_]\w*\.){2,}[a-z_]\w*$/.test(
        assigned
      ) ||
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
 * - `someKey`: a value that looks random, since most keys are names
 * - `token`: any opaque value except identifiers: those of tokens and sessions are not secret
 */
type NameKind = "password" | "pass" | "key" | "someKey" | "token"

const passwordNames =
  /(?:passw(?:or)?d[0-9]?|passwort|passwrd|passphrase|passcode|pwd[0-9]?|pswd?|psk|kennwort|contrase[\u00f1n]a|senha|wachtwoord|has[l\u0142]o|heslo|parola|[s\u015f]ifre(?:si|niz|m)?|lozinka|geslo|salasana|jelsz[o\u00f3]|adgangskode|l[o\u00f6]senord|palavra-?passe|(?:^|[\W_])(?:clave|pw|mdp)|(?:[\W_]|db|user|admin|root|mail|smtp|ftp|sql)pass)$/i
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
  if (isSomeKeyName(name) || (/^key$/i.test(name) && isUnnamedKey(text, at))) return "someKey"
  // The first words of a name with several words precede the match.
  if (/^passe$/i.test(name) && /\bmots? de $/i.test(before(text, at))) return "password"
  return /^key$/i.test(name) &&
    /\b(?:api|access|secret|private|auth|signing|encryption|master|account|shared|admin|licen[cs]e|recovery|unseal|wpa|wi-?fi)[ -]$/i.test(
      before(text, at)
    )
    ? "key"
    : undefined
}

/** Whether the word `key` follows no word that makes it a name or a public value: `?key=`, `Using Key=`, but not `cache key:`. */
const isUnnamedKey = (text: string, at: number): boolean => {
  const word = /([A-Za-z0-9]+)[ _-]?$/.exec(before(text, at))?.[1]
  return word === undefined ? /[?&]$/.test(before(text, at)) : isSomeKeyName(`${word} key`)
}

/** Minimum length of a password and of any other secret. */
const MIN_PASSWORD = 6
const MIN_SECRET = 10
/** Minimum length of a value under a name that says only `key`. */
const MIN_RANDOM = 20
/**
 * Minimum length of a password of letters alone, in quotes or directly after the sign: in prose, the next word is as often an ordinary one.
 */
const MIN_WORDS = 8

const isSecretValue = (kind: NameKind, assigned: string, isCode: boolean): boolean => {
  if (isPlaceholder(assigned) || isKnownFormat(assigned) || isPath(assigned)) return false
  if (kind === "key") return assigned.length >= MIN_SECRET && (isOpaque(assigned) || isUuid(assigned))
  if (kind === "someKey") return assigned.length >= MIN_RANDOM && looksRandom(assigned)
  if (kind === "token") return assigned.length >= MIN_SECRET && isOpaque(assigned) && !isIdentifier(assigned)
  if (assigned.length < MIN_PASSWORD) return false
  if (/^[0-9]{1,4}[-./:][0-9]{1,2}[-./:]?[0-9:TZ.]*$/.test(assigned)) return false
  if (kind === "pass" && isWordLike(assigned) && (!isCode || /[^0-9A-Za-z]/.test(assigned))) return false
  return (
    (hasLetter(assigned) && (hasDigit(assigned) || hasSign(assigned))) ||
    (isCode && kind !== "pass" && assigned.length >= MIN_WORDS && !/[./]/.test(assigned))
  )
}

/** Several words with a capital letter and a number, as in `horse-42-Staple`. */
const isPassphrase = (text: string): boolean =>
  text.split(/[-_./:]/).length >= 3 && /[A-Z]/.test(text) && hasDigit(text)

/**
 * Whether a whole field is a secret: a random-looking token under a secret name, or under the name of a password a value with letters and
 * digits or signs. Words stay, as in `{ "password": "reset-required" }`.
 */
export const isSecretField = (name: string, text: string): boolean => {
  if (!/^[\x21-\x7e]{6,512}$/.test(text)) return false
  if (
    passwordNames.test(name) ||
    camelPasswordNames.test(name) ||
    (/^pass$/i.test(name) && !isWordLike(text))
  ) {
    return (
      isSecretValue("password", text, false) &&
      !isExpression(text) &&
      (!(isWordLike(text) && /[-_./:]/.test(text)) || isPassphrase(text))
    )
  }
  return (
    text.length >= 16 &&
    !isPlaceholder(text) &&
    ((isSecretName(name) && (looksRandom(text) || (isUuid(text) && isKeyName(name)))) ||
      (isSomeKeyName(name) && text.length >= MIN_RANDOM && looksRandom(text)))
  )
}
