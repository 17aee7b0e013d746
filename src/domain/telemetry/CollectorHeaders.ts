import { JsonPointer } from "effect"
import { checkHeaderName, type HeaderNameRefusal, isRefusedName } from "./CollectorHeaders/checkHeaderName.ts"

/** The most headers of a telemetry destination, and the most characters of their names and values together. */
export const MAX_HEADERS = 10
export const MAX_HEADER_CHARACTERS = 8 * 1024

/** Maximum length of a header's name: servers reject longer ones. */
export const MAX_NAME_CHARACTERS = 256

/** Why a header, or the set of headers, must not be sent to a collector. */
export type HeaderRefusal =
  | HeaderNameRefusal
  | "TooMany"
  | "TooLarge"
  | "NotAToken"
  | "NameTooLong"
  | "Duplicate"
  | "EmptyValue"
  | "LineBreak"
  | "OuterBlank"
  | "ValueCharacter"

/** A fault in one header: its place in the request (a JSON Pointer in URI fragment form) and a sentence that contains no header value. */
export interface HeaderFault {
  readonly refusal: HeaderRefusal
  readonly pointer: string
  readonly detail: string
}

/** A header name (RFC 9110, 5.6.2). */
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** A name of words, such as `X-B3-TraceId`: no credential of a common form matches. */
const wordsOnly = /^(?=.{1,64}$)(?:[A-Za-z]{1,16}|[A-Za-z0-9]{1,4})(?:-(?:[A-Za-z]{1,16}|[A-Za-z0-9]{1,4}))*$/

/** Visible ASCII with inner spaces and tabs; the meaning of bytes beyond ASCII differs between recipients (RFC 9110, 5.5). */
const visibleAscii = /^[\x20\t\x21-\x7e]+$/

const refusalOf = (name: string, text: string, seen: ReadonlySet<string>): HeaderRefusal | undefined => {
  if (!token.test(name)) return "NotAToken"
  if (name.length > MAX_NAME_CHARACTERS) return "NameTooLong"
  const refusal = checkHeaderName(name)
  if (refusal !== undefined) return refusal
  if (seen.has(name.toLowerCase())) return "Duplicate"
  if (text === "") return "EmptyValue"
  if (/[\r\n]/.test(text)) return "LineBreak"
  if (!visibleAscii.test(text)) return "ValueCharacter"
  return /^[\x20\t]|[\x20\t]$/.test(text) ? "OuterBlank" : undefined
}

const details: Readonly<Record<HeaderRefusal, string>> = {
  TooMany: `At most ${MAX_HEADERS} headers are allowed`,
  TooLarge: `The names and values of the headers exceed ${MAX_HEADER_CHARACTERS} characters in total`,
  NotAToken: "has an invalid name: use letters, digits and hyphens",
  NameTooLong: `has a name of more than ${MAX_NAME_CHARACTERS} characters`,
  Transport: "describes the connection or the body and is set by this service: remove it",
  Forwarding: "names a request's origin, which only proxies may set: remove it",
  TraceContext: "carries trace context, which this service never takes from you: remove it",
  Cookie: "is a cookie: authenticate with another header",
  Own: "is set by this service: remove it",
  Prototype: "has a reserved name (a property of every JavaScript object): use another name",
  Duplicate: "is given twice; header names are case-insensitive",
  EmptyValue: "has an empty value",
  LineBreak: "has a line break in its value",
  OuterBlank: "has leading or trailing white space in its value",
  ValueCharacter: "has a character outside visible ASCII in its value"
}

/**
 * Checks the headers of a telemetry destination, in the order given, and returns at most one fault per header. Names must be RFC 9110
 * tokens, unique regardless of case, and not belong to the connection, the message, proxies, trace context, cookies or this service; values
 * must be visible ASCII.
 */
export const checkCollectorHeaders = (
  headers: ReadonlyArray<readonly [name: string, value: string]>
): ReadonlyArray<HeaderFault> => {
  const refuseAll = (refusal: "TooMany" | "TooLarge"): ReadonlyArray<HeaderFault> => [
    { refusal, pointer: "#/headers", detail: details[refusal] }
  ]
  if (headers.length > MAX_HEADERS) return refuseAll("TooMany")
  const characters = headers.reduce((sum, [name, text]) => sum + name.length + text.length, 0)
  if (characters > MAX_HEADER_CHARACTERS) return refuseAll("TooLarge")

  const seen = new Set<string>()
  return headers.flatMap(([name, text], index) => {
    const refusal = refusalOf(name, text, seen)
    seen.add(name.toLowerCase())
    if (refusal === undefined) return []
    // A caller may have sent a secret in place of the name, so the fault names the header's position unless the name is known or of words.
    const isValidName = isRefusedName(name) || (refusal !== "NotAToken" && wordsOnly.test(name))
    return [
      {
        refusal,
        pointer: isValidName ? JsonPointer.formatUriFragment(["headers", name]) : "#/headers",
        detail: `${isValidName ? name : `Header ${index + 1}`} ${details[refusal]}`
      }
    ]
  })
}
