import type { Schema } from "effect"
import { isArray } from "../CompiledRules/resolvePointer.ts"

/** Longest text of one value, and longest of one element of a list, in characters. */
const MAX_TEXT = 80
const MAX_ELEMENT = 40

/** Most elements of a list that are named. */
const MAX_ELEMENTS = 3

/** Cuts a text to a number of characters; a cut text ends in an ellipsis. */
export const clip = (text: string, max: number): string => {
  if (text.length <= max) return text
  const characters = [...text.slice(0, 2 * max + 2)]
  return characters.length <= max ? text : `${characters.slice(0, max - 1).join("")}…`
}

/** One word without marks that could be taken for the sentence around it: a name, an id, an address, a path. */
const PLAIN_WORD = /^[\p{L}\p{N}/@#~_][\p{L}\p{M}\p{N}_.@/+#~=&%-]*$/u

/** A number as this module writes it. */
export const DECIMAL = /^-?\d{1,30}(?:\.\d{1,20})?$/u

/** Characters that are invisible or change how the line is shown, and quotation marks that would end the quotation. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}“”]/gu

const codePoint = (character: string): string =>
  character === "“" || character === "”"
    ? '"'
    : `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`

/** A text as one word, or else in quotation marks, with invisible characters as code points. */
export const describeText = (text: string, max: number): string =>
  PLAIN_WORD.test(text) && text.length <= max ? text : quoteText(text, max)

/** A text as a number, or else in quotation marks, so that it is none of the words around it. */
const quoteText = (text: string, max: number): string => {
  const clipped = clip(text, max)
  return DECIMAL.test(clipped) ? clipped : `“${clip(clipped.replace(UNSAFE, codePoint), max)}”`
}

const describeScalar = (value: string | number | boolean | null, max: number): string =>
  typeof value === "string" ? quoteText(value, max) : String(value)

const isScalar = (value: Schema.Json): value is string | number | boolean | null =>
  typeof value !== "object" || value === null

/** A value in a few words: a list by its first elements, an object by its number of members. */
export const describeValue = (value: Schema.Json): string => {
  if (isScalar(value)) return describeScalar(value, MAX_TEXT)
  if (!isArray(value)) {
    const members = Object.keys(value).length
    return members === 1 ? "[1 member]" : `[${members.toLocaleString("en")} members]`
  }
  if (value.length === 0) return "[empty list]"
  const named = value.slice(0, MAX_ELEMENTS).filter(isScalar)
  if (named.length === 0)
    return value.length === 1 ? "[1 element]" : `[${value.length.toLocaleString("en")} elements]`
  const others = value.length - named.length
  return [
    named.map((element) => describeScalar(element, MAX_ELEMENT)).join(", "),
    ...(others === 0 ? [] : [`and ${others.toLocaleString("en")} more`])
  ].join(" ")
}
