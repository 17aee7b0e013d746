import { hasDigit, hasLetter, hasSign, isExpression, isPath, isWordLike } from "./opaque.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { isIdentifier, isKnownFormat, looksRandom } from "./looksRandom.ts"
import { keyPhrases, keyTriggers, passwordTriggers, passwordWords } from "./secretWords.ts"
import { hasSteps, MATCHES_PER_STEP } from "./steps.ts"
import type { TextRange } from "./TextRange.ts"
import { ScanFlag, type TextScan } from "./TextScan.ts"
import { trimTrailing } from "./trimTrailing.ts"

/** A word that is not part of a longer one. Scripts without spaces between words have no such boundary. */
const bounded = (words: string): string =>
  `(?<![\\p{Script=Latin}\\p{Script=Cyrillic}\\p{Script=Greek}0-9_])(?:${words})(?![a-z0-9_]|(?<=[a-z])\\p{Script=Latin})`

const passwordHit = new RegExp(bounded(passwordWords), "giu")
const keyHit = new RegExp(bounded(keyPhrases), "giu")

/** Quotation marks; in French typography, a blank follows. */
const OPEN = "(?:«[ \\u00a0\\u202f]|[\"'`«»„“”‘’「『《【（(]{0,2})"
/** A run of visible ASCII: what people use as a password, whatever language they write in. */
const VALUE = "([\\x21-\\x7e]{5,256})"

/** Prepositions that begin the words between a password's name and the verb: `the password for the test server is`. */
const PREPOSITION =
  "(?:for|to|of|on|in|at|from|für|zum|zur|vom|von|des|der|im|am|auf|bei|pour|au|aux|à|de|du|sur|d['’]|del|da|do|dos|das|no|na|para|di|della|dello|dell['’]|per|al|alla|van|voor|naar|op|dla|z|w|k|ke|pro|til|för|från|fra|till|для|от|к|на|в|до|від|за|untuk|cho|của|için)"

/** Verbs and signs between a name and its value. */
const VERB =
  "(?:(?<!\\b(?:[au]rn|vault))[:=：＝→]|[ ]?(?:\\.{3,}|…):?|[ ](?:has been|have been|had been|was|were|got|wurde|is|ist)[ ](?:now )?(?:changed|set|reset|updated|geändert|gesetzt)(?:[ ](?:to|as|auf|in))?(?=[ :])|[ ](?:wurde|ist)[ ]auf(?=[ ])|:=|=>|-{1,2}>|[–—-](?= )|['’]s(?= )|[ ]used to be(?= )|(?<!\\p{L})(?:is|was|are|as|equals|reads|ist|lautet|war|wäre|sei|sind|heißt|c['’]est|es|era|est|était|è|é|e['’]|era|jest|brzmi|to|je|zní|bylo|on|olarak|är|er|on|ez|este|e|adalah|ialah|là|это|является|был|це|є|είναι|הוא|היא|هي|هو|है|คือ)(?=[ :]))"
const ADVERB =
  "(?:(?:now|set to|currently|still|just|simply|jetzt|nun|aktuell|immer noch|ahora|maintenant|toujours|desde hoy|ora|adesso|agora|nu|teraz|nyní|şimdi|теперь|тепер|set|gesetzt auf|the following|as follows|wie folgt|folgendes|the same as before)[ :]{1,2}){0,2}"

/** A name, a verb or sign, a value: `my password is hunter2`, `das Passwort für den Server lautet: …`. */
const stated = new RegExp(
  `(?:[ ]?(?:\\([^)\\n]{1,40}\\)|[ ]${PREPOSITION}(?:[ ][\\p{L}\\p{N}._@'’/-]{1,32}){1,6}?|[ ](?:[\\p{L}-]{2,24})){0,1}?[ ]{0,2}${VERB}){1,2}\\*{0,3}[ ]{0,2}${ADVERB}${OPEN}${VALUE}`,
  "iuy"
)

/** A name and a value in quotes or directly behind it: `with password Winter2026!`. */
const juxtaposed = new RegExp(`[ ]{1,2}(${OPEN})${VALUE}`, "iuy")

/** After a word of a script without Latin letters: anything up to the first run of visible ASCII. */
const afterOtherScript =
  /[^\x21-\x7e\n。！？]{0,24}(?:[:="'`([<>/-][^\x21-\x7e\n。！？]{0,8}){0,3}([\x21-\x7e]{5,256})/y

/** The new value after a change: `cambié la contraseña a …`, `das Passwort auf … gesetzt`. */
const changed = new RegExp(
  `[ ](?:[\\p{L}\\p{N}._@'’-]{1,32}[ ]){0,5}?(?:auf|en|à|par|por|a|para)[ ]${OPEN}${VALUE}`,
  "iuy"
)

/** Words of a change before the name and, in German, after the value. */
const changeBefore =
  /(?:^|[^\p{L}])(?:chang|modifi|remplac|cambi|actualiz|restablec|alter|mud)\p{L}{1,8}[ ][^.!?\n]{0,32}$/iu
const changeAfter = /^["'`«»“”]{0,2}[ ](?:um|zurück)?(?:gesetzt|geändert|gestellt)/u

/** Words that make a name of a password one of something else: `the password hash`. */
const furtherWord =
  /^[ -](?:algorithm|encoder|encryption|field|file|format|generator|hash|hint|manager|policy|reset|rule|store|vault)/i

/** A value, a verb, a name: `hunter2 is my password`, `use hunter2 as the password`. */
const reversed =
  /(?:^|[\s"'`«„“(])([\x21-\x7e]{5,64}?)["'`»”’]{0,2},?[ ](?:is|was|ist|war|es|est|è|é|jest|är|er|on|as|als|comme|como|come|jako|som)[ ](?:(?:my|the|our|your|his|her|its|new|a|mein|das|unser|neues|ihr|mon|le|notre|ton|votre|mi|la|nuestra|tu|mia|nuova|minha|a|sua|moje|nowe|mijn|het|ons|mitt|min|det)[ ]){0,2}(?:new |old |neue[sr]? |nouveau |nueva |nova |nieuwe |wi-?fi |admin |root |login |master |temporary )?$/iu

/** Number of characters inspected before and after a word. */
const REACH = 96

/** For each search of this file, the literals: a text must contain one of them, in any case. */
export const proseTriggers: ReadonlyArray<ReadonlyArray<string>> = [
  passwordTriggers,
  keyTriggers,
  "login,log in,log-in,sign in,cred,user,account,zugangsdaten,anmeldedaten,benutzer,identifiant,accès,acces,usuari,usuári,utente,acesso,inloggeg,gebruiker,logowania,użytkownik".split(
    ","
  ),
  [
    "seed",
    "recovery",
    "mnemonic",
    "backup",
    "secret",
    "wallet",
    "otp",
    "2fa",
    "mfa",
    "authenticator",
    "setup"
  ],
  ["pin"]
]

const searches: ReadonlyArray<(text: string) => Generator<void, ReadonlyArray<TextRange>>> = [
  findPasswords,
  findKeys,
  findCredentialPairs,
  findSeedPhrases,
  findPins
]

/**
 * Finds passwords and keys that a sentence reveals, in many languages. `first`: the number of the first search's triggers
 * in the scan. Yields after each search and after some matches.
 */
export function* findProseSecrets(
  text: string,
  scan: TextScan,
  first: number
): Generator<void, ReadonlyArray<TextRange>> {
  // The words of other scripts are no triggers.
  const isOtherScript = (scan.flags & ScanFlag.otherScript) !== 0
  const found: Array<TextRange> = []
  // Counted, because `entries()` allocates two objects for each search.
  for (let index = 0; index < searches.length; index++) {
    const search = searches[index]
    if (search === undefined || (!isOtherScript && !scan.has(first + index))) continue
    for (const range of yield* search(text)) found.push(range)
    if (hasSteps(text)) yield
  }
  return found
}

const isOtherScript = (word: string): boolean =>
  !/[A-Za-z]/.test(word.at(-1) ?? "") && !/\p{Script=Latin}/u.test(word.at(-1) ?? "")

function* findPasswords(text: string): Generator<void, ReadonlyArray<TextRange>> {
  const found: Array<TextRange> = []
  let matches = 0
  /** Add a value unless it is ordinary. */
  const add = (written: string, start: number, isLikely: boolean, isQuoted: boolean) => {
    const value = trimValue(written)
    if (!isPassword(value, isLikely, isQuoted)) return
    found.push({ start, end: start + value.length })
  }
  for (const hit of text.matchAll(passwordHit)) {
    if (++matches % MATCHES_PER_STEP === 0) yield
    const end = hit.index + hit[0].length
    const before = text.slice(Math.max(0, hit.index - REACH), hit.index)
    const back = reversed.exec(before)
    const named = back?.[1]
    if (back !== null && named !== undefined && !furtherWord.test(text.slice(end, end + 16))) {
      add(named, hit.index - before.length + back.index + back[0].indexOf(named), true, false)
    }
    if (isOtherScript(hit[0])) {
      afterOtherScript.lastIndex = end
      const match = afterOtherScript.exec(text)
      const value = match?.[1]
      if (match !== null && value !== undefined) {
        add(value, end + match[0].length - value.length, isStatement(match[0].slice(0, -value.length)), false)
      }
      continue
    }
    // Settings without spaces are assignments.
    if (text.charAt(end) === "=") continue
    stated.lastIndex = end
    const match = stated.exec(text)
    const value = match?.[1]
    if (match !== null && value !== undefined) {
      const start = end + match[0].length - value.length
      const isDirect = /^[ ]{0,2}\S{1,8}[ ]{0,2}\S{0,2}$/u.test(match[0].slice(0, -value.length))
      add(
        value,
        start,
        isDirect || /[:=]\s*\S?$/.test(match[0].slice(0, -value.length)),
        isQuotedAt(text, start)
      )
      continue
    }
    changed.lastIndex = end
    const change = changed.exec(text)
    const set = change?.[1]
    if (change !== null && set !== undefined) {
      const start = end + change[0].length - set.length
      const value = trimValue(set)
      if (
        changeBefore.test(before) ||
        changeAfter.test(text.slice(start + value.length, start + value.length + 24))
      )
        add(set, start, true, isQuotedAt(text, start))
    }
    juxtaposed.lastIndex = end
    const next = juxtaposed.exec(text)
    const given = next?.[2]
    if (next !== null && given !== undefined) {
      const start = end + next[0].length - given.length
      add(given, start, false, (next[1] ?? "") !== "" && isQuotedAt(text, start))
    }
  }
  return found
}

/**
 * Whether the words between a name and its value in a script other than Latin state the value: a sign, nothing, or one
 * short word that is no preposition.
 */
const isStatement = (gap: string): boolean => {
  const words = gap.match(/[\p{L}\p{M}]+/gu) ?? []
  const [first = ""] = words
  return (
    /[:：=—–-]\s?\S?$/u.test(gap) ||
    words.length === 0 ||
    (words.length === 1 &&
      first.length <= 8 &&
      !/^(?:от|для|к|на|в|до|из|по|с|від|за|из|για|στο|του|של|ל|على|في|من|برای|के|का)$/iu.test(first))
  )
}

/** Whether a value begins behind a quotation mark. */
const isQuotedAt = (text: string, start: number): boolean =>
  /["'`«„“「『]$|«[ \u00a0\u202f]$/.test(text.slice(Math.max(0, start - 2), start))

/** The value without the punctuation of its sentence. */
const trimValue = (written: string): string => {
  const closing = written.search(/["`«»]|'(?:$|[\s,.;!?)])|[),;]+$/)
  return trimTrailing(closing > 0 ? written.slice(0, closing) : written, ".,:;?'\")>]")
}

/** Passwords of letters alone that lists of leaked passwords begin with. */
const commonPasswords =
  /^(?:qwert[yz]|qwert[yz]uiop|letmein|iloveyou|swordfish|opensesame|trustno1|sunshine|princess|football|baseball|superman|batman|monkey|dragon|asdfgh(?:jkl)?|yxcvbnm|zxcvbnm?|passw0rd|hunter[0-9]?|correcthorsebatterystaple|schatz|hallo|azerty|motdepasse|123456[0-9]*|[0-9]{6,8}|111111|000000)$/i

/** Names that have letters and digits and follow the word password in ordinary sentences. */
const technical =
  /^(?:base(?:32|58|64)|oauth[0-9.]*|argon2(?:id|i|d)?|bcrypt[0-9]*|scrypt|pbkdf2|sha-?[0-9]{1,3}|md[45]|aes-?[0-9]{3}\S*|utf-?(?:8|16)|ipv[46]|http[s0-9/.]*|windows[0-9]+|win(?:32|64|10|11)|ios[0-9]+|tls[0-9v.]*|iso-?[0-9]+|rfc-?[0-9]+|cve-[0-9-]+|1password\S*|keepass[0-9a-z]*|version[0-9.]+|v[0-9.]+|2fa|mfa|k8s|i18n|web3|office365|microsoft365|auth0|log4j|s3|ec2|h2|step[0-9]+|page[0-9]+|user[0-9]*|test[0-9]?|sql[0-9]+|(?:at|min|max)[0-9]+|[0-9]+[-+]?(?:characters?|chars?|digits?|letters?|zeichen|days?|minutes?|times?|bits?|bytes?|th|st|nd|rd|x|h|hrs?|hours?|am|pm|mal|tage?|jahre?|stellig\w*|car[ao]cteres|caractères))$/i

/**
 * Whether a value is a password. After a verb or sign, a word with a digit suffices; elsewhere it needs letters of both
 * cases and digits, or signs within.
 */
const isPassword = (value: string, isLikely: boolean, isQuoted: boolean): boolean => {
  if (
    value.length < 5 ||
    isPlaceholder(value) ||
    isKnownFormat(value) ||
    isPath(value) ||
    isExpression(value)
  )
    return false
  if (isLikely && commonPasswords.test(value)) return true
  if (
    technical.test(value) ||
    /^[A-Za-z_-]+[=:][0-9.]+$|^![a-z]+$|^\*+\w+\*+$/.test(value) ||
    /^[$%&]?\w+[(.]\w*[)(]|^--?\w|^<|^\w+:\/\/|@\w+\.\w/.test(value)
  )
    return false
  if (/^[0-9]{1,4}[-./:][0-9]{1,2}[-./:]?[0-9:TZ.]*$|^[A-Za-z]{1,5}-?[0-9.]{1,3}$/.test(value)) return false
  if (/^[\w-]+\.(?:[a-z]{2,4}[0-9]?|properties|example|template)$/i.test(value)) return false
  if (isQuoted && /^[A-Za-z0-9!@#$%^&*_+~-]{6,}$/.test(value) && hasLetter(value))
    return !/^[a-z]+[-_][a-z_-]+$|^[a-z]+[A-Z][a-z]+[A-Za-z]*$|^[A-Za-z]*(?:[Pp]ass|[Tt]oken|[Ss]ecret)[A-Za-z]*$/.test(
      value
    )
  if (!hasLetter(value)) return false
  if (isLikely)
    return (
      (hasDigit(value) || /[!@#$%^*?~+&]./.test(value)) &&
      (!isWordsWithMarks(value) || namesWithNumber.test(value))
    )
  const isMixed = /[a-z]/.test(value) && /[A-Z]/.test(value) && hasDigit(value)
  return (isMixed || (hasSign(value) && hasDigit(value))) && !isWordsWithMarks(value) && !isIdentifier(value)
}

/** Several capitalized words with a number at the end, as people choose them: `Summer-Lisbon42`. */
const namesWithNumber = /^(?:[A-Z][a-z]{2,15}[-_.]){1,3}[A-Z][a-z]{2,15}[0-9]{2,4}$/

/** Words and numbers with punctuation in between, such as `page-2` or `v2.0`; not `correct-horse-7`, which has several words. */
const isWordsWithMarks = (value: string): boolean =>
  isWordLike(value) && /[-_./:]/.test(value) && value.split("-").length < 3

/** The words between a key's name and its value, without the end of a sentence. */
const keyGap =
  /[^\n.!?\x21-\x2f\x3a-\x40]?(?:[^\n!?0-9]{0,48}?)(?<![0-9A-Za-z_+/=.~-])([0-9A-Za-z_+/][0-9A-Za-z_+/=.~-]{15,511})/y

/** A key before its name: `… (API key)`, `… is my token`. */
const keyBefore =
  /(?<![0-9A-Za-z_+/=.~-])([0-9A-Za-z_+/][0-9A-Za-z_+/=.~-]{15,80})["'`]{0,2}(?:[ ]\(|,?[ ](?:is|as)[ ](?:my|the|our|your)[ ](?:new )?)$/

/** The end of such a text, which rules out most places quickly. */
const endsReversed = /[ ]\($|[ ](?:my|the|our|your|new)[ ]$/

function* findKeys(text: string): Generator<void, ReadonlyArray<TextRange>> {
  const found: Array<TextRange> = []
  let matches = 0
  for (const hit of text.matchAll(keyHit)) {
    if (++matches % MATCHES_PER_STEP === 0) yield
    // Part of a resource name, such as `arn:aws:secretsmanager:…:secret:db`.
    if (text.charAt(hit.index - 1) === ":") continue
    const end = hit.index + hit[0].length
    const isAfterKey = endsReversed.test(text.slice(Math.max(0, hit.index - 10), hit.index))
    const named = isAfterKey ? keyBefore.exec(text.slice(Math.max(0, hit.index - REACH), hit.index)) : null
    const key = named?.[1] ?? ""
    if (named !== null && /[a-z]/.test(key) && /[A-Z]/.test(key) && hasDigit(key) && looksRandom(key)) {
      const start = Math.max(0, hit.index - REACH) + named.index
      found.push({ start, end: start + key.length })
    }
    keyGap.lastIndex = end
    const match = keyGap.exec(text)
    const written = match?.[1]
    if (match === null || written === undefined) continue
    const value = trimTrailing(written, ".=-")
    const gap = match[0].slice(0, -written.length)
    const isHex = /^[0-9a-f-]+$/i.test(value)
    // Elsewhere in the sentence, a digest or an identifier is as likely.
    const isStated = VERBS.test(gap)
    if (!isStated && !/^[\s"'`«„“(=:[>{]{0,8}$/u.test(gap) && !isKeyAfter(hit[0], gap, value)) continue
    if (
      !looksRandom(value) ||
      (isHex && !isStated) ||
      (/^(?:tokens?|secrets?|jeton|bearer)$/i.test(hit[0]) && isHex)
    )
      continue
    if (!isHex && !(/[0-9]/.test(value) && /[A-Za-z]/.test(value))) continue
    if (
      isPlaceholder(value) ||
      isKnownFormat(value) ||
      isPath(value) ||
      /^\/|^[\w-]+\.[\w-]+\.[a-z]{2,}$/.test(value)
    )
      continue
    const start = end + match[0].length - written.length
    found.push({ start, end: start + value.length })
  }
  return found
}

/** Whether a value somewhat behind a phrase such as `API key` is a key: it mixes cases and digits, and has no prefix of an identifier. */
const isKeyAfter = (phrase: string, gap: string, value: string): boolean =>
  /[ -]/.test(phrase) &&
  gap.length <= 32 &&
  /[a-z]/.test(value) &&
  /[A-Z]/.test(value) &&
  /[0-9]/.test(value) &&
  !/^[a-z]{2,8}_/.test(value)

const VERBS = new RegExp(`${VERB}\\*{0,3}[ ]{0,2}${ADVERB}${OPEN}$|[^\\x00-\\x7f][ ]?$`, "iu")

/** A user name and a password after a word for both: `login: ada / Winter2026!`. */
const pair =
  /(?<![\p{L}])(?:log ?-?in(?:s| data| details)?|sign in|credentials?|creds|user(?:name)?(?: ?(?:\/|and|&) ?pass(?:word)?)?|account|zugangsdaten|anmeldedaten|login-?daten|benutzer(?:name)?(?: ?\/ ?passwort)?|identifiants?|acc[eè]s|credenciales|acceso|usuario(?: ?\/ ?contraseña)?|credenziali|accesso|utente|credenciais|acesso|usu[aá]rio|inloggegevens|gebruiker|dane (?:do )?logowania|użytkownik|логин(?: ?[/и] ?пароль)?|учетные данные|учётные данные|账号|帐号|用户名|ユーザー|ログイン|아이디|계정)(?![a-z0-9_.@-])[^\n\x21-\x7e]{0,4}(?:[ ](?:is|are|with|as|mit|avec|con|com|met|:|lautet|lauten|sind|son|sono|são)){0,2}[ ]{0,2}[:=：]?[ ]{0,2}["'`]?[\w.@+-]{2,64}["'`]?(?:[ ]?[/|:][ ]?|[ ](?:and|und|et|y|e|en|i|with|mit|avec|con|com|met|z|и|,)[ ])(?:(?:pass(?:word|wort)?|pwd?|kennwort|mdp|contraseña|clave)[ ]?[: ][ ]?)?["'`]?([\x21-\x7e]{6,64})/giu

/** The same with a blank between both, after a colon: `credentials for the database: ada Winter2026!`. */
const spacedPair =
  /\b(?:credentials?|creds|login|zugangsdaten|identifiants?|credenciales|credenziali)\b[^\n:]{0,32}:[ ]["'`]?[\w.@+-]{2,64}["'`]?[ ]["'`]?([\x21-\x7e]{8,64})/gi

function* findCredentialPairs(text: string): Generator<void, ReadonlyArray<TextRange>> {
  const found: Array<TextRange> = Array.from(text.matchAll(spacedPair)).flatMap((match) => {
    const written = match[1] ?? ""
    const value = trimValue(written)
    const start = match.index + match[0].length - written.length
    return isPassword(value, false, false) && !isWordLike(value) ? [{ start, end: start + value.length }] : []
  })
  let matches = 0
  for (const match of text.matchAll(pair)) {
    if (++matches % MATCHES_PER_STEP === 0) yield
    const written = match[1] ?? ""
    const value = trimValue(written)
    if (!isPassword(value, false, false) || value.includes("/")) continue
    const start = match.index + match[0].length - written.length
    // A path, such as `Administrator/Server2019`.
    if (isWordLike(value) && /[^\s][/|:]$/.test(text.slice(Math.max(0, start - 2), start))) continue
    found.push({ start, end: start + value.length })
  }
  return found
}

/** Words that restore a wallet: 12 to 24 words after `seed phrase` or `mnemonic`. */
const seedPhrase =
  /\b(?:seed|recovery|mnemonic|backup|secret|wallet)[ _-]?(?:phrase|words?|mnemonic|seed)?["'`]?[ ]{0,2}(?:is|are|:|=|ist|lautet)[ ]{0,2}["'`]?((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})(?![a-z])/gi

/** The key of a generator of one-time passwords, in groups of four as it is shown to a user. */
const setupKey =
  /\b(?:totp|otp|2fa|mfa|authenticator|setup)[ _-]?(?:secret|seed|key)["'`]?[ ]{0,2}(?:is|:|=)[ ]{0,2}["'`]?((?=[a-z ]{0,79}[2-7])(?:[a-z2-7]{4}[ ]){3,15}[a-z2-7]{4})(?![a-z0-9])/gi

function* findSeedPhrases(text: string): Generator<void, ReadonlyArray<TextRange>> {
  return [...text.matchAll(seedPhrase), ...text.matchAll(setupKey)]
    .map((match) => {
      const phrase = match[1] ?? ""
      const end = match.index + match[0].length
      return { start: end - phrase.length, end }
    })
    .filter(
      ({ end, start }) =>
        !/\b(?:the|and|for|you|are|was|that|this|with|not|but|from|have|has)\b/i.test(text.slice(start, end))
    )
}

/** A personal identification number after its name. */
const pin =
  /(?<![\p{L}0-9_])(?:(?:[Mm]y|[Oo]ur|[Mm]eine|[Mm]on|[Mm]i|[Mm]ijn|[Mm]ój|[Мм]ой)[ ](?:[\p{L}-]{1,16}[ ]){0,2}(?:PIN|pin)|PIN(?:[- ]?(?:code|Code|код|kod|コード))?)(?:[ ](?:is|ist|lautet|es|est|è|é|jest|to|är|er|now|jetzt)|[:：]|[はは는은是]){1,2}[ ]?["'`]?([0-9]{4,8})(?![0-9.:/-]|[ ][0-9]| Uhr)/gu

function* findPins(text: string): Generator<void, ReadonlyArray<TextRange>> {
  return Array.from(text.matchAll(pin)).flatMap((match) => {
    const digits = match[1] ?? ""
    const end = match.index + match[0].length
    // Six digits after a colon may be a postal code, which is also called PIN.
    return digits.length === 6 && /[:：]/.test(match[0]) ? [] : [{ start: end - digits.length, end }]
  })
}
