import type { PersonalData } from "../RedactionRules.ts"
import type { TextRange } from "./TextRange.ts"

/** Finds personal data of the given kinds. Linear in the text's length. */
export const findPersonalData = (
  text: string,
  kinds: ReadonlySet<PersonalData>
): ReadonlyArray<TextRange> => [
  ...(kinds.has("email_address") && text.includes("@") ? findEmailAddresses(text) : []),
  ...(kinds.has("phone_number") ? findPhoneNumbers(text) : []),
  ...(kinds.has("card_number") ? findCardNumbers(text) : []),
  ...(kinds.has("iban") ? findIbans(text) : [])
]

/** A mailbox (RFC 5321 without quoted local parts and the signs of a query), also with letters beyond ASCII (RFC 6531). */
const emailAddress =
  /(?<![\p{L}\p{N}.!#$%'*+^_`{|}~-])[\p{L}\p{N}.!#$%'*+^_`{|}~-]{1,64}@(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?\.){1,8}\p{L}[\p{L}\p{N}-]{1,24}(?![\p{L}\p{N}-])/gu

/**
 * Domains reserved for examples and tests (RFC 2606), the account name of Git servers, which belongs to no person, and names of files such
 * as `icon@2x.png`.
 */
const notPersonal =
  /@(?:[^@]*\.)?(?:example(?:\.(?:com|net|org))?|test|invalid|localhost)$|^git@|\.(?:avif|css|gif|html?|ico|jpe?g|js|json|pdf|png|svg|tsx?|webp)$/i

const findEmailAddresses = (text: string): ReadonlyArray<TextRange> =>
  Array.from(text.matchAll(emailAddress))
    .filter(([address]) => !notPersonal.test(address))
    .map((match) => ({ start: match.index, end: match.index + match[0].length }))

/** `+` and 8 to 15 digits (E.164), also as `00`, in groups as people write them. */
const international =
  /(?<![\p{L}\p{N}+]|[0-9][ .-])(?:\+|00(?=[1-9]))[1-9](?:(?! -[0-9])[ \u00a0\u202f()./-]{0,3}[0-9]){7,14}(?![0-9])/gu

/** The North American form with its separators. */
const northAmerican =
  /(?<![\p{L}\p{N}.-])(?:1[ .-])?(?:\([2-9][0-9]{2}\)[ ]?|[2-9][0-9]{2}[.-])[2-9][0-9]{2}[ .-][0-9]{4}(?![\p{L}\p{N}.-])/gu

/** Words for phones, also as the name of a field. */
const phoneWord =
  "(?:t[eé]l(?:ef?on(?:o|e|nummer)?|éfono|éphone|ephone)?|phone|mobile?|cell[ _-]?phone|handy(?:nummer)?|rufnummer|fax|whatsapp|sms|gsm|móvil|celular|portable|cellulare|telemóvel|telefoon|komórka|тел(?:ефон)?|моб|телефон|電話|电话|手机|전화|هاتف|फ़ोन)[\\p{L}]{0,3}(?:[ _-]?(?:number|no|nr|nummer))?"

/** A national number, in groups as people write them. */
const nationalNumber = "(?:\\(?[0-9]{1,5}\\)?)(?:[ \\u00a0\\u202f()./–-]{0,3}[0-9]){5,13}"

/** A national number after such a word, in prose or as the value of a setting, or after `call` and in an address of WhatsApp. */
const afterWord = new RegExp(
  `(?<!\\p{L})(?:${phoneWord}\\.?["'\`\\\\]{0,4}[ \\u00a0]{0,2}[:=]{0,2}[ \\u00a0]{0,2}["'\`\\\\]{0,4}|(?:call(?: me at| us at)?|cell)[.:]{0,2}[ \\u00a0]{0,2}|wa\\.me/)(?:is |ist |es |est |è |é |number )?(${nationalNumber})(?![0-9\\p{L}])`,
  "giu"
)

const phoneName = new RegExp(`(?<!\\p{L})${phoneWord}$`, "iu")
const wholeNumber = new RegExp(`^\\+?${nationalNumber}$`, "u")

/** Maximum length of a name that is inspected. */
const MAX_NAME = 128

/** Whether a whole field is personal data by its name: a national phone number in `{ "mobilePhone": … }`. */
export const isPersonalField = (name: string, text: string, kinds: ReadonlySet<PersonalData>): boolean =>
  kinds.has("phone_number") &&
  name.length <= MAX_NAME &&
  phoneName.test(name.replace(/([a-z])([A-Z])/g, "$1 $2")) &&
  wholeNumber.test(text)

const findPhoneNumbers = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  for (const form of [international, northAmerican]) {
    for (const match of text.matchAll(form)) {
      found.push({ start: match.index, end: match.index + match[0].length })
    }
  }
  for (const match of text.matchAll(afterWord)) {
    const end = match.index + match[0].length
    found.push({ start: end - (match[1] ?? "").length, end })
  }
  return found
}

/**
 * Lengths of the numbers of payment cards by their first digits: Visa, Mastercard, Mir, American Express, Discover, Diners,
 * JCB, UnionPay, Maestro.
 */
const cardBrands: ReadonlyArray<readonly [start: RegExp, lengths: ReadonlyArray<number>]> = [
  [/^4/, [13, 16, 19]],
  [/^(?:5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720))/, [16]],
  [/^220[0-4]/, [16, 17, 18, 19]],
  [/^3[47]/, [15]],
  [/^(?:6011|64[4-9]|65)/, [16, 19]],
  [/^(?:30[0-5]|3[689])/, [14, 16]],
  [/^35(?:2[89]|[3-8])/, [16, 19]],
  [/^62/, [16, 17, 18, 19]],
  [/^(?:50|5[6-8]|6[37])/, [16, 18, 19]]
]

const digitGroups =
  /(?<![0-9A-Za-z.+-]|\b0,)[2-6](?:[ \u00a0\u202f+-]?[0-9]){12,18}(?![0-9A-Za-z]|[.-][0-9])/g

const findCardNumbers = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  for (const match of text.matchAll(digitGroups)) {
    const [run] = match
    // The last group may be the month of expiry or the check value.
    const written = [run, run.slice(0, Math.max(0, run.search(/[^0-9][0-9]{1,4}$/)))].find(isCardNumber)
    if (written !== undefined) found.push({ start: match.index, end: match.index + written.length })
  }
  return found
}

const isCardNumber = (written: string): boolean => {
  const digits = written.replaceAll(/[^0-9]/g, "")
  return (
    cardBrands.some(([start, lengths]) => start.test(digits) && lengths.includes(digits.length)) &&
    hasLuhnDigit(digits)
  )
}

/** ISO/IEC 7812-1, annex B: every second digit from the right is doubled, and the sum of all digits is a multiple of ten. */
export const hasLuhnDigit = (digits: string): boolean => {
  let sum = 0
  for (let place = 0; place < digits.length; place++) {
    const digit = digits.charCodeAt(digits.length - 1 - place) - 0x30
    const doubled = digit * 2
    sum += place % 2 === 0 ? digit : doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0
}

/** Lengths of IBANs by country (ISO 13616, SWIFT registry). */
export const ibanLengths = new Map(
  (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 " +
    "GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 " +
    "MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 " +
    "TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"
  )
    .split(" ")
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))] as const)
)

const ibanStart = /(?<![0-9A-Za-z])[A-Za-z]{2}[0-9]{2}(?=[ \u00a0\u202f+-]?[0-9A-Za-z])/g

const findIbans = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  for (const match of text.matchAll(ibanStart)) {
    const length = ibanLengths.get(match[0].slice(0, 2).toUpperCase())
    if (length === undefined) continue
    const end = endOfIban(text, match.index, length)
    if (end !== undefined) found.push({ start: match.index, end })
  }
  return found
}

/** The end of the IBAN of a length that starts at an index, with single spaces (`+` in a query) or hyphens in between; undefined if there is none. */
const endOfIban = (text: string, start: number, length: number): number | undefined => {
  let iban = ""
  let at = start
  for (; iban.length < length; at++) {
    const character = text.charAt(at)
    if (/[0-9A-Za-z]/.test(character)) iban += character.toUpperCase()
    else if (!/[ \u00a0\u202f+-]/.test(character) || !/[0-9A-Za-z]/.test(text.charAt(at + 1)))
      return undefined
  }
  return !/[0-9A-Za-z]/.test(text.charAt(at)) && hasIbanDigits(iban) ? at : undefined
}

/** ISO 7064, MOD 97-10: with the first four characters at the end, and letters as numbers from 10, the remainder is 1. */
export const hasIbanDigits = (iban: string): boolean => {
  let remainder = 0
  for (const character of iban.slice(4) + iban.slice(0, 4)) {
    const value = Number.parseInt(character, 36)
    remainder = (remainder * (value > 9 ? 100 : 10) + value) % 97
  }
  return remainder === 1
}
