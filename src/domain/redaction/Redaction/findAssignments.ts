import { hasDigit, hasLetter, hasSign, isExpression, isOpaque, isPath, isWordLike } from "./opaque.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { passwordLabel } from "./secretWords.ts"
import { isKeyName, isPasswordName, isSecretName, isSomeKeyName } from "./secretNames.ts"
import { isIdentifier, isKnownFormat, isUuid, looksRandom } from "./looksRandom.ts"
import { execFrom, execInParts } from "./execInParts.ts"
import { hasSteps, MATCHES_PER_STEP } from "./steps.ts"
import type { TextRange } from "./TextRange.ts"
import { trimTrailing } from "./trimTrailing.ts"

/** Maximum length of a name, and of an assigned value. */
const MAX_NAME = 81
const MAX_VALUE = 4096

/** Operators between a name and its value, longest first. */
const signs = [
  // With a type or a size in between: `token: String = "…"`, `char token[64] = "…"`.
  "[ \\t]{0,2}:[ \\t]{1,2}&?[A-Za-z][\\w.<>?]{0,32}[ \\t]{0,2}=(?=[ \\t]{0,2}[\"'`])",
  "\\[\\w{0,16}\\][ \\t]{0,2}=(?=[ \\t]{0,2}[\"'`])",
  // An alternative to another source: `ENV["TOKEN"] || "…"`, `getenv("TOKEN") ?: "…"`, `${TOKEN:-…}`.
  "\\){0,2}[ \\t]{1,2}(?:\\|\\||\\?\\?|\\?:)[ \\t]{0,2}(?=[\"'`])",
  "\\)[ \\t]{1,2}[?:][ \\t]{0,2}(?=[\"'`])",
  ":-(?=[^\\s}])",
  // A dump of PHP.
  '=>\\s{0,24}string\\([0-9]{1,4}\\)[ ](?=")',
  // In Markdown, the emphasis of a label may end after the sign.
  "[ \\t]{0,4}(?:=>|->|\\|\\|=|[:?.]{1,3}=|={1,3}|:(?:\\*{1,3}(?=[ ]))?)",
  // The argument of a call: `setPassword("…")`, `.password("…")`.
  "\\((?=[\"'`])",
  // The field of a form, which a driver of a browser fills.
  "\\)\\.(?:fill|type|send_?keys|set_?value|press_?sequentially)\\((?=[\"'`])",
  // The text of an element, also on a line of its own.
  ">\\s{0,24}(?:<!\\[CDATA\\[)?",
  "[ \\t]{1,4}>",
  // The cell of a table.
  "[ \\t]{0,16}\\|(?=[ \\t]{0,3}[\"'`]?[^\\s|\"'`]{10})",
  "[ \\t]{0,2},[ \\t]{0,2}(?=[\"'`])",
  "\\{\\s{0,24}(?=[\"'])",
  "[ \\t]{0,2}\\{\\s{0,12}default[ \\t]{0,3}=",
  // The next element, as in a list of properties or a table.
  "</(?:key|name|td|th|dt|b|strong|label|span)>\\s{0,24}<(?:string|value|td|dd|code|span)[^<>]{0,64}>\\s{0,24}"
]

/** Words between a name and its value, and white space before a value that is in quotes or long. */
const words = [
  "[ \\t]{1,2}(?:string|str|char|text)[ \\t]{0,2}:?=(?=[ \\t]{0,2}[\"'`])",
  "[ \\t](?:is|was|ist|lautet|es|est|to|-)(?: now| set to)?:?[ \\t]",
  "[ \\t]{1,4}(?=[\"'])",
  "[ \\t]{1,3}(?=[0-9A-Za-z_+/-]{20})"
]

/** Each word of a text may be a name, so the next character selects the alternatives to try. */
const separator = `[\\s,]{0,24}["'\`]?\\b(?:value|text)["'\`]?[ \\t]{0,3}[:=]|(?=[ \\t]{0,16}[[():.?=>|,{<-])(?:${signs.join("|")})|(?=[ \\t])(?:${words.join("|")})|\\s{1,2}\\{\\s{0,12}default[ \\t]{0,3}=`

/** The start of a call that wraps a literal: `Some("…")`, `SecretString::new("…")`. */
const wrapper =
  "(?:(?:new[ ])?(?:(?:Some|Ok|String|Secret\\w{0,16})(?:(?:::|\\.)\\w{1,16})?|Buffer\\.from|Redacted\\.make|base64\\.b64decode|atob|bytes|str)\\((?=[\"'`]))?"

/**
 * A name and a value separated by a sign or a verb such as `is`: in prose, code, command lines, queries, JSON inside strings however often
 * escaped, XML elements.
 */
const assignment = new RegExp(
  `(?<![A-Za-z0-9])([A-Za-z][\\w\\u00c0-\\u024f.-]{0,80})["'\`\\]*\\\\]{0,8}(${separator})[ \\t]{0,4}\\\\{0,7}(?:[[(]\\s{0,24}(?=["'\`]))?(?:\\{(?=[^\\s{}]{6,128}\\}(?:;|$))|${wrapper}(?:[bruf@$]{1,2}(?=["'\`]))?["'\`]{1,3}[ ]?)?`,
  "gi"
)

/** A match has at most some 200 characters: its name, a sign or words, quotation marks. */
const EXTENT = { before: 1, reach: 512 }

/** A quoted value ends at the closing quote, any other at white space or a separator; in a query `&` is a separator. */
const quoted = new RegExp(`[^"'\`\\r\\n\\\\]{4,${MAX_VALUE}}(?=\\\\?["'\`])`, "y")
const inQuery = new RegExp(`[^\\s"'\`,;&<>|\\\\){}\\]]{4,${MAX_VALUE}}`, "y")
const inText = new RegExp(`[^\\s"'\`,;<>|\\\\){}\\]]{4,${MAX_VALUE}}`, "y")

/** Several words in quotes. */
const phrase = /[0-9A-Za-z]{2,16}(?:[ ][0-9A-Za-z]{1,16}){2,7}(?=\\?["'`])/y

/** Words of a sentence about a password. */
const sentence =
  /\b(?:a|an|and|are|at|be|by|cannot|characters?|chars|digits?|enter|for|from|has|have|in|is|least|letters?|long|must|no|not|of|on|or|pass\w*|please|should|than|the|to|too|with|your)\b|passwor|contrase|mot de|senha|wachtwoord/i

/** Whether several words are a password: the four groups of an application's password, or words with a number that are no sentence. */
const isPhrase = (text: string): boolean =>
  /^[a-z]{4}(?: [a-z]{4}){3}$/.test(text) || (hasDigit(text) && hasLetter(text) && !sentence.test(text))

/** Returns the value assigned at an index. */
const valueAt = (
  text: string,
  start: number,
  isQuoted: boolean,
  sign: string,
  kind: NameKind
): string | undefined => {
  if (isQuoted && kind === "password") {
    phrase.lastIndex = start
    const words = phrase.exec(text)?.[0]
    if (words !== undefined && isPhrase(words)) return words
  }
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

/** A text must contain one of these literals, in any case: parts of the names of secrets. */
export const assignmentTriggers = [
  ..."pass pwd psw psk secret token key credential creds auth session cookie crumb ssw pw _pat pat= pat: geheim kennwort clave contrase signature jwt".split(
    " "
  ),
  ..."senha wachtwoord hasł haslo heslo parola şifre sifre lozinka geslo salasana jelsz adgangskode lösenord losenord seed mnemonic".split(
    " "
  ),
  ..."mdp totp connectionstring sid= sid: sid\" sid'".split(" ")
]

/** Finds values that are assigned to secret names and look like secrets. Yields after some matches. */
export function* findAssignments(text: string): Generator<void, ReadonlyArray<TextRange>> {
  const found: Array<TextRange> = []
  const isLong = hasSteps(text)
  let matches = 0
  let from = 0
  for (;;) {
    if (++matches % MATCHES_PER_STEP === 0) yield
    const match = isLong
      ? yield* execInParts(assignment, text, from, EXTENT)
      : execFrom(assignment, text, from)
    if (match === null) return found
    from = match.index + match[0].length
    const [whole, written = "", sign = ""] = match
    // The `n` of an escaped line break `\\n` is not part of the name.
    const name = text.charAt(match.index - 1) === "\\" ? written.slice(1) : written
    const kind = kindOf(text, match.index, name)
    const start = match.index + whole.length
    // A variable as an argument before another one.
    const isVariable = sign.trim() === "," && text.charAt(match.index - 1) === "$"
    if (
      isVariable ||
      isPartOfResourceName(text, match.index) ||
      (text.endsWith("${", match.index) && (!/^:-?$/.test(sign) || /[?+=]/.test(text.charAt(start))))
    ) {
      from = Math.max(start - 1, match.index + 1)
      continue
    }
    const isQuoted = /["'`] ?$/.test(whole)
    if (kind === undefined || !joinsNameAndValue(text, match.index, name, sign, isQuoted)) continue
    const assigned = valueAt(text, start, isQuoted, sign, kind)
    if (assigned === undefined) {
      from = Math.max(start - 1, match.index + 1)
      continue
    }
    const trimmed = isQuoted || sign === "=" ? assigned : trimTrailing(assigned, ".!?:")
    const bare = kind === "password" && /[A-Za-z][_A-Z~#$%&*+][\w]*[a-z]$/.test(trimmed) ? assigned : trimmed
    const isCode = isQuoted || (sign === "=" && text.charAt(start - 1) === "=")
    if (
      isFalsePositive(kind, name, opensList(whole) ? "," : sign.trim(), bare, isQuoted) ||
      !(
        isSecretValue(kind, bare, isCode) ||
        (kind === "token" && isServiceToken(text, match.index, name, bare))
      ) ||
      (isBareSpace(sign, isQuoted) && !looksRandom(bare) && !isUuid(bare))
    ) {
      // The value may be the next name, as in `<add key="Password" value="…" />`.
      from = bare.length > MAX_NAME ? start + bare.length : start
      continue
    }
    found.push({ start, end: start + bare.length })
    from = start + bare.length
    if (!isQuoted) continue
    for (const range of furtherPieces(text, from)) {
      found.push(range)
      from = range.end
    }
    for (const range of furtherValues(text, start + bare.length)) {
      // In a call, a word of letters is another argument.
      if (isSecretValue(kind, text.slice(range.start, range.end), false)) found.push(range)
      from = range.end
    }
  }
}

/** Words before `token` that make an identifier of a UUID, or that are part of a sentence. */
const notService =
  /^(?:session|csrf|xsrf|idempotency|lease|fencing|client|request|correlation|cancellation|cancel|trace|transaction|order|event|lock|page|next|sync|resume|start|end|previous|the|a|an|this|that|your|our|his|her|its|with|and|or|of|for|new|old|first|last|same|each|any|no|one|invalid|valid|test|string|const|let|var|final|private|public|static|readonly|val|def|continuation|change|upload|tracking|device|push|job|task|message|user|vendor|unexpected|unknown|expired|missing|provided|given|received|generated)$/i

/** Whether a UUID is the token of a service, whose name precedes the word: `acme token = "…"`. */
const isServiceToken = (text: string, at: number, name: string, value: string): boolean => {
  const service = /^token$/i.test(name)
    ? /(?:^|[\n\t"'])[ \t]*([A-Za-z][\w-]{2,24}) $/.exec(before(text, at))?.[1]
    : undefined
  return service !== undefined && isUuid(value) && !notService.test(service)
}

/** Whether the matched text ends with the start of a list: its first element is often another name, not a value. */
const opensList = (matched: string): boolean => /\[\s*["'`]{1,3} ?$/.test(matched)

/** Whether only white space separates a name from a value without quotes. */
const isBareSpace = (sign: string, isQuoted: boolean): boolean => sign.trim() === "" && !isQuoted

/**
 * Whether a sign joins a name and a value: after a bare space only a name that ends in a capitalized word for secrets
 * does (`ACME_TOKEN …`); `to` does between quotes (`"token" to "…"`) or in `changed the password to`.
 */
const joinsNameAndValue = (
  text: string,
  at: number,
  name: string,
  sign: string,
  isQuoted: boolean
): boolean => {
  if (isBareSpace(sign, isQuoted))
    return /(?:SECRET|TOKEN|KEY|PASSWORD|[a-z](?:Secret|Token)?Key|^secret)$/.test(name)
  return sign.trim() !== "to" || isChange(text, at) || (isQuoted && /["'`]/.test(text.charAt(at - 1)))
}

/** Maximum number of values in a list after one name. */
const MAX_LIST = 64

const nextValue =
  /[ ]?\\?["'`]\s{0,8}(?:,|\|{1,2}|\?\?|;)\s{0,8}\\?["'`][ ]?([^\s"'`\\]{6,4096})(?=[ ]?\\?["'`])/y

/** The end of a literal, an operator or a line break, and the literal that continues it. */
const nextPiece =
  /\\?["'`](?:[ \t]{0,8}[+.&]{0,2}[ \t]{0,8}\\?\r?\n[ \t]{0,64}[+.&]{0,2}[ \t]{0,8}|[ \t]{0,8}[+.&]{1,2}[ \t]{0,8}|[ \t]{1,8})[bruf]{0,2}["'`]([^\s"'`\\]{1,4096})(?=["'`])/iy

/** Finds the literals that continue the one that ends at an index. */
const furtherPieces = (text: string, from: number): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  nextPiece.lastIndex = from
  for (
    let match = nextPiece.exec(text);
    match !== null && found.length < MAX_LIST;
    match = nextPiece.exec(text)
  ) {
    found.push({ start: nextPiece.lastIndex - (match[1] ?? "").length, end: nextPiece.lastIndex })
  }
  return found
}

/** Finds the further values of a list, which have no name of their own: `passwords: ["…", "…"]`. */
const furtherValues = (text: string, from: number): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  nextValue.lastIndex = from
  for (
    let match = nextValue.exec(text);
    match !== null && found.length < MAX_LIST;
    match = nextValue.exec(text)
  ) {
    const end = nextValue.lastIndex
    found.push({ start: end - (match[1] ?? "").length, end })
    // A value before a colon or an equals sign is a name.
    if (/^\\?["'`]\s{0,4}[:=]/.test(text.slice(end, end + 8))) found.pop()
  }
  return found
}

/** Names of calls that set a secret, rather than look one up or check it. */
const keySetter = /(?:^|\.)(?:set|with)_?[A-Za-z]/i
const setter = /(?:^|\.)(?:(?:set|with)_?[A-Za-z]|pass(?:word|wd|phrase)$)/i

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
  (sign === "-" && !looksRandom(assigned) && !isUuid(assigned)) ||
  (sign === "" && kind === "pass") ||
  (sign === "(" && !(kind === "password" ? setter : keySetter).test(name)) ||
  // The first part of a connection string, in which the password has its own name.
  /^(?:host|server|data source|port|dbname|user|uid|driver|endpoint|account\w*|provider)=/i.test(assigned) ||
  // An empty value and the next argument, or an option.
  /^(?:[,;:)\]}]|--)/.test(assigned) ||
  // A list of names, `["password", "token"]`, unless the value could not be a name.
  (sign === "," &&
    (isExpression(assigned) ||
      (!looksRandom(assigned) && !isLongNumber(assigned) && !(hasDigit(assigned) && hasLetter(assigned))))) ||
  // The host after a placeholder, as in `https://<user>:<password>@host`.
  (sign === ">" && assigned.startsWith("@")) ||
  // A selector or a route: `#add-password`, `users/passwords#edit`.
  /^[\w/-]*#[a-z_-]+$/i.test(assigned) ||
  (!isQuoted &&
    (isExpression(assigned) ||
      // A package with its version.
      /^[a-z][\w.-]*[-:@]v?[0-9]+(?:\.[0-9]+){1,3}$/i.test(assigned) ||
      /[_.](?:passw(?:or)?d|pwd|pass|secret|token|key)$/i.test(assigned) ||
      // The name of a class, such as `OpenID4VCICredential`.
      /^[A-Z][A-Za-z]*[0-9]{0,2}[A-Za-z]*[a-z][A-Z][a-z]{3,}$|^[A-Z][A-Za-z]*[0-9]{0,2}[A-Z]*[A-Z][a-z]{3,}[A-Z][a-z]{3,}$/.test(
        assigned
      ) ||
      // Words joined as in a variable or a property of an object.
      /^[A-Za-z]\w*[a-z0-9](?:Password|Secret|Token|Key)$|^[A-Za-z]+(?:_[A-Za-z]+)+$|^[*&]?(?:[A-Za-z_]\w*\.){1,}[A-Z]\w*(?<![0-9]{2})$|^(?:[a-z_]\w*\.){2,}[a-z_]\w*$/.test(
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
 * - `token`: any opaque value except identifiers: ids of tokens and sessions are not secret
 */
export type NameKind = "password" | "pass" | "key" | "someKey" | "token"

/** Words before `key` in a text. */
const isSecretKey =
  /\b(?:api|access|secret|private|auth|authentication|authorization|signing|encryption|master|account|shared|admin|licen[cs]e|recovery|unseal|wpa|wi-?fi)[ -]$/i

/** Words before `token` in a text that make it a key rather than an identifier. */
const isSecretToken = /\b(?:api|access|auth|bot|deploy|personal|refresh|secret)[ -]$/i

/** Every secret name contains one of these. Rules out most names quickly. */
const stems =
  /pass|pw|ps[wk]|ssw|crumb|secret|token|key|cred|auth|session|sid|cookie|jwt|bearer|pat|seed|mnemonic|totp|connectionstring|kennwort|contrase|senha|wachtwoord|has[l\u0142]o|heslo|parola|[s\u015f]ifre|lozinka|geslo|salasana|jelsz|adgangskode|l[o\u00f6]senord|clave|mdp/i

/** Returns what kind of secret a name's last words denote: `the admin password`, `API key`. */
const kindOf = (text: string, at: number, name: string): NameKind | undefined => {
  if (!stems.test(name)) return undefined
  if (isPasswordName(name)) return "password"
  if (/^pass$/i.test(name)) {
    // The result of a test: `--- PASS: TestName`.
    if (/-{2,3} $/.test(before(text, at))) return undefined
    return /\b(?:user|login|e?mail|account|benutzer)/i.test(before(text, at)) ? "password" : "pass"
  }
  if (/^token$/i.test(name) && isSecretToken.test(before(text, at))) return "key"
  // A cookie's value contains names and values, which findAuthorizations separates.
  if (/cookie$/i.test(name)) return undefined
  if (isSecretName(name)) return isKeyName(name) ? "key" : "token"
  if (/^key$/i.test(name) && isSecretKey.test(before(text, at))) return "key"
  if (isSomeKeyName(name) || (/^key$/i.test(name) && isUnnamedKey(text, at))) return "someKey"
  // The first words of a name with several words precede the match.
  return /^passe$/i.test(name) && /\bmots? de $/i.test(before(text, at)) ? "password" : undefined
}

/** Returns what kind of secret a label denotes: the head of a column, or a line above its value. */
export const kindOfLabel = (label: string): NameKind | undefined => {
  if (passwordLabel.test(label)) return "password"
  const last = /[A-Za-z][\w.-]*$/.exec(label)
  const kind = last === null ? undefined : kindOf(label, last.index, last[0])
  return kind ?? (isSecretName(label) ? (isKeyName(label) ? "key" : "token") : undefined)
}

/** Whether the word `key` follows no word that makes it a name or a public value: `?key=`, `Using Key=`, but not `cache key:`. */
const isUnnamedKey = (text: string, at: number): boolean => {
  const word = /([A-Za-z0-9]+)[ _-]?$/.exec(before(text, at))?.[1]
  return word === undefined ? /[?&]$/.test(before(text, at)) : isSomeKeyName(`${word} key`)
}

/** Minimum length of a password and of any other secret. */
const MIN_PASSWORD = 6
const MIN_SECRET = 10
/** Whether a text is a number too long to be an identifier. */
const isLongNumber = (text: string): boolean => /^[0-9]{24,}$/.test(text)

/** Minimum length of a value under a name that says only `key`. */
const MIN_RANDOM = 20
/**
 * Minimum length of a password of letters alone, in quotes or directly after the sign: in prose, the next word is as often an ordinary one.
 */
const MIN_WORDS = 8

/** Whether a value under a name of a kind is a secret. In code, a password may be a word. */
export const isSecretValue = (kind: NameKind, assigned: string, isCode: boolean): boolean => {
  if (isPlaceholder(assigned) || isKnownFormat(assigned) || isPath(assigned)) return false
  if (kind !== "someKey" && isLongNumber(assigned)) return true
  if (kind === "key") return assigned.length >= MIN_SECRET && (isOpaque(assigned) || isUuid(assigned))
  if (kind === "someKey") return assigned.length >= MIN_RANDOM && looksRandom(assigned)
  if (kind === "token") return assigned.length >= MIN_SECRET && isOpaque(assigned) && !isIdentifier(assigned)
  if (assigned.length < MIN_PASSWORD) return false
  if (/^[0-9]{1,4}[-./:][0-9]{1,2}[-./:]?[0-9:TZ.]*$/.test(assigned)) return false
  if (kind === "pass" && isWordLike(assigned) && (!isCode || /[^0-9A-Za-z]/.test(assigned))) return false
  return (
    (hasLetter(assigned) && (hasDigit(assigned) || hasSign(assigned))) ||
    // Not a name such as `PasswordFlow`.
    (isCode && kind !== "pass" && assigned.length >= MIN_WORDS && !/[./]|pass|secret|token/i.test(assigned))
  )
}

/** Words with a capital letter and a number, as in `horse-42-Staple`. */
const isPassphrase = (text: string): boolean => /[A-Z]/.test(text) && hasDigit(text)

/**
 * Whether a whole field is a secret: a random-looking token under a secret name, or under the name of a password a value with letters and
 * digits or signs. Words stay, as in `{ "password": "reset-required" }`.
 */
export const isSecretField = (name: string, text: string): boolean => {
  if (!/^[\x21-\x7e]{6,512}$/.test(text)) return false
  if (isPasswordName(name) || (/^pass$/i.test(name) && !isWordLike(text))) {
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
