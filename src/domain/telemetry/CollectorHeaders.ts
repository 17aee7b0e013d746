import { JsonPointer } from "effect"
import { checkHeaderName, type HeaderNameRefusal } from "./CollectorHeaders/checkHeaderName.ts"

/** The most headers a collector may be sent with each request, and the most characters of their names and values together. */
export const MAX_HEADERS = 10
export const MAX_HEADER_CHARACTERS = 8 * 1024

/** Why a header, or the lot of them, may not be sent to a collector. */
export type HeaderRefusal =
  | HeaderNameRefusal
  | "TooMany"
  | "TooLarge"
  | "NotAToken"
  | "Duplicate"
  | "EmptyValue"
  | "LineBreak"
  | "OuterBlank"
  | "ValueCharacter"

/** What is wrong with one header: where in the request (a JSON Pointer in URI fragment form), and in a sentence that holds no value. */
export interface HeaderFault {
  readonly refusal: HeaderRefusal
  readonly pointer: string
  readonly detail: string
}

/** A name of a header (RFC 9110, 5.6.2). */
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** Visible ASCII with blanks and tabs inside; bytes beyond ASCII mean different things to different readers (RFC 9110, 5.5). */
const value = /^[\x20\t\x21-\x7e]+$/

const judge = (name: string, text: string, seen: ReadonlySet<string>): HeaderRefusal | undefined => {
  if (!token.test(name)) return "NotAToken"
  const refusal = checkHeaderName(name)
  if (refusal !== undefined) return refusal
  if (seen.has(name.toLowerCase())) return "Duplicate"
  if (text === "") return "EmptyValue"
  if (/[\r\n]/.test(text)) return "LineBreak"
  if (!value.test(text)) return "ValueCharacter"
  return /^[\x20\t]|[\x20\t]$/.test(text) ? "OuterBlank" : undefined
}

const sentence: Readonly<Record<HeaderRefusal, string>> = {
  TooMany: `At most ${MAX_HEADERS} headers are accepted`,
  TooLarge: `The headers have more than ${MAX_HEADER_CHARACTERS} characters together`,
  NotAToken: "has a name that no header can have: use letters, digits and hyphens",
  Transport: "describes the connection or the body, which the exporter does itself: leave it out",
  Forwarding: "says where a request came from, which only a proxy may: leave it out",
  TraceContext: "carries trace context, which must not reach a collector: leave it out",
  Cookie: "is a cookie: authenticate with another header",
  Own: "belongs to this service: leave it out",
  Prototype: "has a name that programs mistake for a part of their objects: use another",
  Duplicate: "is given twice; names differ by more than case",
  EmptyValue: "has an empty value",
  LineBreak: "has a value with a line break",
  OuterBlank: "has a value that begins or ends with a blank",
  ValueCharacter: "has a value with a character that is not visible ASCII"
}

/**
 * Judges the headers that a collector is to be sent, as name and value in the order given: RFC 9110 tokens, none of those that the
 * connection, the message, proxies, trace context, cookies or this service own, each once whatever its case, values of visible ASCII.
 * Answers with what is wrong, at most one fault a header; nothing where all may be sent.
 */
export const checkCollectorHeaders = (
  headers: ReadonlyArray<readonly [name: string, value: string]>
): ReadonlyArray<HeaderFault> => {
  const whole = (refusal: "TooMany" | "TooLarge"): ReadonlyArray<HeaderFault> => [
    { refusal, pointer: "#/headers", detail: sentence[refusal] }
  ]
  if (headers.length > MAX_HEADERS) return whole("TooMany")
  const characters = headers.reduce((sum, [name, text]) => sum + name.length + text.length, 0)
  if (characters > MAX_HEADER_CHARACTERS) return whole("TooLarge")

  const seen = new Set<string>()
  return headers.flatMap(([name, text], index) => {
    const refusal = judge(name, text, seen)
    seen.add(name.toLowerCase())
    if (refusal === undefined) return []
    // What is no name may be a whole header line, secret and all: such a one is told by its place.
    const named = refusal !== "NotAToken"
    return [
      {
        refusal,
        pointer: named ? JsonPointer.formatUriFragment(["headers", name]) : "#/headers",
        detail: `${named ? name : `Header ${index + 1}`} ${sentence[refusal]}`
      }
    ]
  })
}
