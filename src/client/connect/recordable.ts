/** Values of tools as the service accepts them. */
import type { Schema } from "effect"
import { cutText } from "../../domain/cutText.ts"

/** Most characters of a result that is recorded. The service accepts 4 MiB, and a character may take four bytes. */
const MAX_RESULT_CHARACTERS = 1_000_000

/** Most characters of a recorded error. */
const MAX_ERROR_CHARACTERS = 4_000

/** A value as JSON, as `JSON.stringify` writes it. Throws a `TypeError` if it has no such form. */
export const toJson = (value: unknown): Schema.Json => parse(stringify(value))

const stringify = (value: unknown): string => {
  const text: unknown = JSON.stringify(value)
  if (typeof text !== "string") throw new TypeError(`A ${typeof value} is not JSON`)
  return text
}

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- JSON.parse returns JSON
const parse = (text: string): Schema.Json => JSON.parse(text) as Schema.Json

/**
 * A result as JSON. One that is too long, or that is not JSON, is replaced by `{ "omitted": … }`, which says why. Characters that the service
 * cannot store are replaced.
 */
export const recordable = (result: unknown): Schema.Json => {
  let text
  try {
    text = stringify(result)
  } catch {
    return { omitted: "The result is not JSON" }
  }
  return text.length > MAX_RESULT_CHARACTERS
    ? { omitted: `The result has ${text.length} characters; at most ${MAX_RESULT_CHARACTERS} are recorded` }
    : parse(text.replace(ESCAPE, (escape) => (escape.length > 2 ? REPLACEMENT : escape)))
}

/** An escape in a JSON text: U+0000 and lone surrogates, as `JSON.stringify` writes them, or one of two characters. */
const ESCAPE = /\\(?:u0000|ud[89a-f]..|.)/gu

const REPLACEMENT = "\ufffd"

/** The text of an error, cut to the length that is recorded, without characters that the service cannot store. */
export const errorText = (error: unknown): string => {
  const text = error instanceof Error ? error.message : typeof error === "string" ? error : inspect(error)
  return cutText(text, MAX_ERROR_CHARACTERS).replace(/\0|\p{Surrogate}/gu, REPLACEMENT)
}

const inspect = (error: unknown): string => {
  try {
    return stringify(error)
  } catch {
    return String(error)
  }
}
