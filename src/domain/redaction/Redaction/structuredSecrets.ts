import { isPlaceholder } from "./isPlaceholder.ts"
import { looksRandom } from "./looksRandom.ts"
import type { TextRange } from "./TextRange.ts"

/** Private keys in armour, to the end of them where the end line was cut off. Public keys and certificates are none. */
export const findPrivateKeys = (text: string): ReadonlyArray<TextRange> => {
  if (!text.includes("PRIVATE KEY") && !text.includes("Private-Lines:")) return []
  const found: Array<TextRange> = []
  const begin = /-{2,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{2,5}|Private-Lines: ?[0-9]{1,4}/g
  for (let match = begin.exec(text); match !== null; match = begin.exec(text)) {
    const from = match.index + match[0].length
    armour.lastIndex = from
    let last = armour.test(text) ? armour.lastIndex : from
    // A line that only names what a key begins with holds none.
    if (last - from < MIN_ARMOUR) continue
    closing.lastIndex = last
    if (closing.test(text)) last = closing.lastIndex
    found.push({ start: match.index, end: last })
    begin.lastIndex = last
  }
  return found
}

const closing = /-{2,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{2,5}/y

/** Fewest characters of a key between its lines. */
const MIN_ARMOUR = 40

/** What a key in armour is made of: base64, its headers (`Proc-Type: 4,ENCRYPTED`), and line ends, which may be written as `\n`. */
const armour =
  /(?:\\+[nr]|[\s,]+|(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset|Private-MAC|Private-Hash): ?[\w.,:() -]{0,100}|[0-9A-Za-z+/=]{16,}|=?[0-9A-Za-z+/=]{1,15}(?=[\s\\"'-]|$)){0,4000}/y

/** JSON Web Tokens, signed or encrypted: three or five parts of which the first is the header. */
export const findJwts = (text: string): ReadonlyArray<TextRange> => {
  if (!text.includes("eyJ")) return []
  const found: Array<TextRange> = []
  const form = /eyJ[0-9A-Za-z_-]{10,2048}\.[0-9A-Za-z_-]{4,}\.[0-9A-Za-z_-]*(?:\.[0-9A-Za-z_-]+){0,2}/y
  for (let start = text.indexOf("eyJ"); start !== -1; start = text.indexOf("eyJ", start)) {
    form.lastIndex = start
    const match = form.exec(text)?.[0]
    if (match !== undefined && isHeader(match.slice(0, match.indexOf(".")))) {
      found.push({ start, end: start + match.length })
      start += match.length
    } else start = runEnd(text, start)
  }
  return found
}

/** The end of the run of base64url that starts here: a run is looked at once. */
const runEnd = (text: string, start: number): number => {
  const run = /[0-9A-Za-z_-]+/y
  run.lastIndex = start
  run.test(text)
  return run.lastIndex
}

const isHeader = (part: string): boolean => {
  try {
    const header: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"))
    return typeof header === "object" && header !== null && ("alg" in header || "enc" in header)
  } catch {
    return false
  }
}

/** Most characters of what stands before the host of a URL. */
const MAX_USERINFO = 512

const userinfo = new RegExp(
  `:?//([^\\s/?#"'<>@\`]{0,200})(?::([^\\s/?#"'<>\`]{1,${MAX_USERINFO}}))?@(?=[\\w[.-])`,
  "y"
)

/** How Oracle's connection strings begin: a user and a password with a slash between them, before `@`. */
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

/** Passwords, and tokens alone, in what leads to a service. The user's name stays. */
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
    // `user:password` may have fallen into the first group as a whole.
    const colon = before.indexOf(":")
    const end = at + match[0].length - 1
    const start = password !== undefined ? end - password.length : at + 3 + (colon === -1 ? 0 : colon + 1)
    const secret = text.slice(start, end)
    const isToken = password === undefined && colon === -1
    if (isToken ? looksRandom(secret) : secret.length > 0 && !isPlaceholder(secret))
      found.push({ start, end })
  }
  return found
}
