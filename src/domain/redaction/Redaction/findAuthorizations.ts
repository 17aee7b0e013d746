import { hasDigit, isExpression, isOpaque, isWordLike } from "./opaque.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { isIdentifier, looksRandom } from "./looksRandom.ts"
import type { TextRange } from "./TextRange.ts"
import { trimTrailing } from "./trimTrailing.ts"

/** An authorization scheme with its credential, in a header or in prose. */
const scheme =
  /\b(?:(Bearer|Token|ApiKey|Api-Key|SSWS|GenieKey|Negotiate|JWT)[ \t]{1,3}(?:token[=:][ \t]?)?["']?([0-9A-Za-z._~+/=:%-]{8,2048})|Basic[ \t]{1,3}([0-9A-Za-z+/=_-]{8,1024}))/gi

/** Finds credentials after the name of a scheme. In prose an ordinary word often follows, and an identifier after `token`. */
export const findSchemes = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  for (const match of text.matchAll(scheme)) {
    const [whole, name = "", credential, basic] = match
    const value = credential ?? basic ?? ""
    const end = match.index + whole.length
    const clean = trimmed(value)
    const isSecret =
      basic === undefined
        ? isOpaque(clean) && !isPair(clean) && !(/^token$/i.test(name) && isIdentifier(clean))
        : isBasic(basic)
    if (isSecret) found.push({ start: end - value.length, end: end - (value.length - clean.length) })
  }
  return found
}

/** Whether a value is a name and an ordinary value, as in `JWT kid=2026-11`. */
const isPair = (value: string): boolean => {
  const [, rest] = /^[A-Za-z][\w-]{0,24}=([^=]+)$/.exec(value) ?? []
  return rest !== undefined && !looksRandom(rest)
}

const trimmed = (value: string): string => trimTrailing(value, ".,:")

/** Whether a value is base64 of a user name and a password. */
const isBasic = (value: string): boolean => {
  const decoded = Buffer.from(value, "base64").toString("latin1")
  // oxlint-disable-next-line no-control-regex -- a name and a password are visible
  return /^[^\u0000-\u001f\u007f:]{0,200}:[^\u0000-\u001f\u007f]{1,}$/.test(decoded)
}

/** Headers whose whole value is a credential, and cookie headers, which contain several. */
const header =
  /\b(?:proxy-)?authorization["']?[ \t]{0,3}[:=][ \t]{0,3}["']?(?:(?:Digest|AWS4-HMAC-SHA256|Hawk|OAuth|Signature|[A-Z][\w-]{1,30})[ \t]{1,3})?([^\r\n"']{8,2048})|(?:\b(?:set-)?cookie["']?[ \t]{0,3}:[ \t]{0,3}["']?|(?:^|\s)(?:-b|--cookie)[ \t=]{1,3}["'])([^\r\n"']{4,4096})/gi

/** Finds the credentials of authorization headers and of cookies. */
export const findHeaders = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  for (const match of text.matchAll(header)) {
    const [whole, credential, cookies] = match
    const end = match.index + whole.length
    if (credential !== undefined) {
      const value = trimmed(credential.trimEnd())
      const start = end - credential.length
      if (
        !/\s/.test(value)
          ? !isExpression(value) && (isOpaque(value) || isLong(value))
          : /(?:signature|response|mac|oauth_\w+)="?[^\s",]{8,}/i.test(value)
      ) {
        found.push({ start, end: start + value.length })
      }
    } else if (cookies !== undefined) {
      const start = end - cookies.length
      for (const pair of cookies.matchAll(/([\w.-]{1,128})=([^;\s,\\]{8,2048})/g)) {
        const value = pair[2] ?? ""
        if (!isOpaque(value) || /^(?:_ga|__utm|_gid|_fbp|_gcl)/.test(pair[1] ?? "")) continue
        const at = start + pair.index + pair[0].length - value.length
        found.push({ start: at, end: at + value.length })
      }
    }
  }
  return found
}

/** The response of digest authentication, which fits one request, and often also the next. */
const digest = /\bDigest[ \t][^\n]{0,800}?\bresponse=\\?["']?([0-9a-f]{32,128})/gi

export const findDigests = (text: string): ReadonlyArray<TextRange> =>
  Array.from(text.matchAll(digest), (match) => {
    const end = match.index + match[0].length
    return { start: end - (match[1] ?? "").length, end }
  })

const isLong = (value: string): boolean =>
  value.length >= 20 && hasDigit(value) && !isWordLike(value) && !isPlaceholder(value)
