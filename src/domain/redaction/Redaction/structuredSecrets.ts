import { isPlaceholder } from "./isPlaceholder.ts"
import { looksRandom } from "./looksRandom.ts"
import { MATCHES_PER_STEP } from "./steps.ts"
import type { TextRange } from "./TextRange.ts"

/** Finds armoured private keys, including truncated ones without the end line. Public keys and certificates are not secret. */
export const findPrivateKeys = (text: string): ReadonlyArray<TextRange> => {
  if (!text.includes("PRIVATE KEY") && !text.includes("Private-Lines:")) return []
  const found: Array<TextRange> = []
  const begin = /-{2,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{2,5}|Private-Lines: ?[0-9]{1,4}/g
  for (let match = begin.exec(text); match !== null; match = begin.exec(text)) {
    const from = match.index + match[0].length
    armour.lastIndex = from
    let last = armour.test(text) ? armour.lastIndex : from
    // A begin line without a key body.
    if (last - from < MIN_ARMOUR) continue
    closing.lastIndex = last
    if (closing.test(text)) last = closing.lastIndex
    found.push({ start: match.index, end: last })
    begin.lastIndex = last
  }
  return found
}

const closing = /-{2,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{2,5}/y

/** Minimum number of characters between the begin and end lines. */
const MIN_ARMOUR = 40

/** The body of an armoured key: base64, its headers (`Proc-Type: 4,ENCRYPTED`), and line breaks, which may be escaped as `\n`. */
const armour =
  /(?:\\+[nr]|[\s,]+|(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset|Private-MAC|Private-Hash): ?[\w.,:() -]{0,100}|[0-9A-Za-z+/=]{16,}|=?[0-9A-Za-z+/=]{1,15}(?=[\s\\"'-]|$)){0,4000}/y

/**
 * Finds JSON Web Tokens, signed or encrypted: three or five parts, beginning with the header; the second is empty without an encrypted key
 * (RFC 7516). Yields after some
 * candidates, because decoding one takes up to 10 µs.
 */
export function* findJwts(text: string): Generator<void, ReadonlyArray<TextRange>> {
  if (!text.includes("eyJ")) return []
  const found: Array<TextRange> = []
  let candidates = 0
  const form =
    /eyJ[0-9A-Za-z_-]{10,2048}\.(?:[0-9A-Za-z_-]{4,}|(?=\.))(?:\.[0-9A-Za-z_-]*(?:\.[0-9A-Za-z_-]+){0,2})?/y
  for (let start = text.indexOf("eyJ"); start !== -1; start = text.indexOf("eyJ", start)) {
    if (++candidates % MATCHES_PER_STEP === 0) yield
    form.lastIndex = start
    const match = form.exec(text)?.[0]
    if (match !== undefined && isToken(match.split("."))) {
      found.push({ start, end: start + match.length })
      start += match.length
    } else start = runEnd(text, start)
  }
  return found
}

/** Returns the end of a base64url run, so that each run is inspected once. */
const runEnd = (text: string, start: number): number => {
  const run = /[0-9A-Za-z_-]+/y
  run.lastIndex = start
  run.test(text)
  return run.lastIndex
}

/** Minimum length of the parts of a token whose header is damaged. */
const MIN_PART = 16

/**
 * Whether the parts are a token: the header names an algorithm, or the payload is an object too, or both look random.
 * Without a signature, as in a truncated token, the payload must be an object too.
 */
const isToken = ([header = "", payload = "", signature]: ReadonlyArray<string>): boolean => {
  const decoded = decodeObject(header)
  if (decoded !== undefined && signature !== undefined && ("alg" in decoded || "enc" in decoded)) return true
  if (decoded !== undefined && decodeObject(payload) !== undefined) return true
  return (
    signature !== undefined &&
    signature.length >= MIN_PART / 2 &&
    payload.startsWith("ey") &&
    header.length >= MIN_PART &&
    payload.length >= MIN_PART &&
    looksRandom(payload)
  )
}

const decodeObject = (part: string): object | undefined => {
  try {
    const decoded: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"))
    return typeof decoded === "object" && decoded !== null ? decoded : undefined
  } catch {
    return undefined
  }
}

/** Maximum length of a URL's userinfo. */
const MAX_USERINFO = 512

const userinfo = new RegExp(
  `:?//([^\\s/?#"'<>@\`]{0,200}(?:@[\\w.-]{1,100}(?=:[^\\s/?#"'<>@\`]{1,128}@))?)(?::([^\\s/?#"'<>\`]{1,${MAX_USERINFO}}))?@(?=[\\w[.-])`,
  "y"
)

/** The start of Oracle connection strings: user and password separated by a slash, before `@`. */
const oracle =
  /(?:\bjdbc:oracle:\w{1,8}:[\w$#]{1,64}\/([^\s/@"']{4,64})@|(?<![\w/.:@])[\w$#]{1,64}\/([^\s/@"']{4,64})@\/\/(?=[\w[]))/g

const findOracleCredentials = (text: string): ReadonlyArray<TextRange> => {
  if (!text.includes("jdbc:oracle:") && !text.includes("@//")) return []
  return Array.from(text.matchAll(oracle)).flatMap((match) => {
    const password = match[1] ?? match[2] ?? ""
    const start = match.index + match[0].lastIndexOf(`/${password}@`) + 1
    return isPlaceholder(password) ? [] : [{ start, end: start + password.length }]
  })
}

/** Finds passwords, and tokens without a user name, in connection URLs. The user name stays. */
export const findUrlCredentials = (text: string): ReadonlyArray<TextRange> => [
  ...findUserinfo(text),
  ...findOracleCredentials(text)
]

const findUserinfo = (text: string): ReadonlyArray<TextRange> => {
  const first = text.indexOf("://")
  if (first === -1 || !text.includes("@", first)) return []
  const found: Array<TextRange> = []
  for (let at = first; at !== -1; at = text.indexOf("://", at + 3)) {
    userinfo.lastIndex = at
    const match = userinfo.exec(text)
    if (match === null || !/[a-z0-9]$/i.test(text.slice(Math.max(0, at - 1), at))) continue
    const [, before = "", password] = match
    // The first group may have matched `user:password` as a whole.
    const colon = before.indexOf(":")
    const end = at + match[0].length - 1
    const start = password !== undefined ? end - password.length : at + 3 + (colon === -1 ? 0 : colon + 1)
    const secret = text.slice(start, end)
    const isToken = password === undefined && colon === -1
    if (isToken ? looksRandom(secret) : !/^[0-9]{0,5}$/.test(secret) && !isPlaceholder(secret))
      found.push({ start, end })
  }
  return found
}
