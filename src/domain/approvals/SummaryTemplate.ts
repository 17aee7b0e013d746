/**
 * The template of a rule's summary: one sentence about the agent's request, from the arguments of a step.
 *
 * ```
 * template    = *( text / "{{" / "}}" / placeholder )
 * placeholder = "{" path [ "|" format ] "}"
 * path        = "." / name *( "." name ) / JSON Pointer
 * format      = "number" / "date" / "count" / "money" ":" ( currency code / path )
 * ```
 *
 * Parsing reports the first fault with its place. Rendering is total: a value that is missing or has another type is shown as such. A value
 * cannot look like the words around it: a text that is no number is in quotation marks, and a value that the template could not show is
 * in brackets.
 */
import { Result, type Schema } from "effect"
import { pointerSegments, type Resolved, resolvePointer } from "./CompiledRules/resolvePointer.ts"
import {
  describeFault,
  formatCount,
  formatDate,
  formatMoney,
  formatNumber
} from "./SummaryTemplate/formats.ts"
import { isCurrency } from "./SummaryTemplate/currencies.ts"
import { clip, describeValue } from "./SummaryTemplate/describeValue.ts"

/** Longest template, in UTF-16 code units, and most placeholders of one. */
export const MAX_TEMPLATE = 300
export const MAX_PLACEHOLDERS = 16

/** Longest rendered summary, in characters. */
export const MAX_RULE_SUMMARY = 500

/** Most segments of a path. */
const MAX_SEGMENTS = 16

/** Why a text is not a template. */
export interface TemplateFault {
  /** Index of the first UTF-16 code unit that is at fault. */
  readonly at: number
  /** The fault and the expectation. A sentence without its place. */
  readonly detail: string
}

/** A place in the arguments. */
interface Path {
  /** As the template has it. */
  readonly source: string
  readonly segments: ReadonlyArray<string>
}

type Format =
  | { readonly _tag: "text" | "number" | "date" | "count" }
  | { readonly _tag: "money"; readonly currency: string | Path }

type TemplatePart =
  | { readonly _tag: "Words"; readonly text: string }
  | { readonly _tag: "Placeholder"; readonly path: Path; readonly format: Format }

/** A parsed template. */
export type SummaryTemplate = ReadonlyArray<TemplatePart>

/** Raised within the parser only. */
class Fault extends Error {
  readonly fault: TemplateFault
  constructor(at: number, detail: string) {
    super(detail)
    this.fault = { at, detail }
  }
}

/** Parses a template, or returns its first fault. */
export const parseSummaryTemplate = (text: string): Result.Result<SummaryTemplate, TemplateFault> => {
  try {
    return Result.succeed(parse(text))
  } catch (error) {
    if (error instanceof Fault) return Result.fail(error.fault)
    throw error
  }
}

/** A fault as one sentence with its place; characters are counted from 1. */
export const formatTemplateFault = ({ at, detail }: TemplateFault): string =>
  `At character ${at + 1}: ${detail}`

const parse = (text: string): SummaryTemplate => {
  if (text.length > MAX_TEMPLATE)
    throw new Fault(MAX_TEMPLATE, `Expected at most ${MAX_TEMPLATE} characters.`)
  const parts: Array<TemplatePart> = []
  let words = ""
  let placeholders = 0
  let at = 0
  const endWords = () => {
    if (words !== "") parts.push({ _tag: "Words", text: words })
    words = ""
  }
  while (at < text.length) {
    const character = text.charAt(at)
    if (character !== "{" && character !== "}") {
      words += character
      at += 1
    } else if (text.charAt(at + 1) === character) {
      words += character
      at += 2
    } else if (character === "}") {
      throw new Fault(at, "A } without a {. Write }} for the character itself.")
    } else {
      const end = text.indexOf("}", at)
      if (end < 0) throw new Fault(at, "A { without a }. Write {{ for the character itself.")
      if (++placeholders > MAX_PLACEHOLDERS) {
        throw new Fault(at, `Expected at most ${MAX_PLACEHOLDERS} placeholders.`)
      }
      endWords()
      parts.push(parsePlaceholder(text.slice(at + 1, end), at + 1))
      at = end + 1
    }
  }
  endWords()
  return parts
}

const parsePlaceholder = (text: string, at: number): TemplatePart => {
  const nested = text.indexOf("{")
  if (nested >= 0) throw new Fault(at + nested, "A { within a placeholder.")
  const bar = text.indexOf("|")
  return bar < 0
    ? { _tag: "Placeholder", path: parsePath(text, at), format: { _tag: "text" } }
    : {
        _tag: "Placeholder",
        path: parsePath(text.slice(0, bar), at),
        format: parseFormat(text.slice(bar + 1), at + bar + 1)
      }
}

/** The text without spaces around it, and its place. */
const trimmed = (text: string, at: number): readonly [text: string, at: number] => [
  text.trim(),
  at + text.length - text.trimStart().length
]

const parsePath = (given: string, givenAt: number): Path => {
  const [source, at] = trimmed(given, givenAt)
  if (source === "") throw new Fault(at, "Expected the path of an argument, such as order or customer.name.")
  if (source === ".") return { source, segments: [] }
  if (source.startsWith("/")) {
    const escape = source.search(/~(?![01])/u)
    if (escape >= 0) throw new Fault(at + escape, "Expected ~0 or ~1 after ~ in a JSON Pointer.")
    return limited({ source, segments: pointerSegments(source) }, at)
  }
  const segments = source.split(".")
  let place = at
  for (const segment of segments) {
    const blank = segment.search(/\s/u)
    if (segment === "") throw new Fault(place, "Expected a name on both sides of a dot.")
    if (blank >= 0) {
      throw new Fault(
        place + blank,
        "A path has no spaces. For such a name, write a JSON Pointer: {/two words}."
      )
    }
    place += segment.length + 1
  }
  return limited({ source, segments }, at)
}

const limited = (path: Path, at: number): Path => {
  if (path.segments.length > MAX_SEGMENTS)
    throw new Fault(at, `Expected at most ${MAX_SEGMENTS} names in a path.`)
  return path
}

const CURRENCY_CODE = /^[A-Z]{3}$/u

const parseFormat = (given: string, givenAt: number): Format => {
  const colon = given.indexOf(":")
  const [name, at] = trimmed(colon < 0 ? given : given.slice(0, colon), givenAt)
  switch (name) {
    case "number":
    case "date":
    case "count":
      if (colon >= 0) throw new Fault(givenAt + colon, `The format ${name} takes nothing after it.`)
      return { _tag: name }
    case "money": {
      if (colon < 0)
        throw new Fault(
          at + name.length,
          "Expected a currency: money:EUR, or money:currency for an argument."
        )
      const currencyAt = givenAt + colon + 1
      const currency = parsePath(given.slice(colon + 1), currencyAt)
      if (!CURRENCY_CODE.test(currency.source)) return { _tag: "money", currency }
      if (isCurrency(currency.source)) return { _tag: "money", currency: currency.source }
      throw new Fault(
        trimmed(given.slice(colon + 1), currencyAt)[1],
        `${currency.source} is no currency code of ISO 4217. For an argument of this name, write /${currency.source}.`
      )
    }
    default:
      throw new Fault(at, "Expected a format: number, date, count or money.")
  }
}

/** Renders a template with the arguments of a step: at most `MAX_RULE_SUMMARY` characters on one line. */
export const renderSummary = (template: SummaryTemplate, stepArguments: Schema.Json | undefined): string =>
  clip(
    template
      .map((part) =>
        part._tag === "Words" ? part.text : renderPlaceholder(part.path, part.format, stepArguments)
      )
      .join(""),
    MAX_RULE_SUMMARY
  )

const renderPlaceholder = (
  { segments, source }: Path,
  format: Format,
  root: Schema.Json | undefined
): string => {
  const value = resolvePointer(root, segments)
  if (value === undefined || typeof value === "symbol") return `[${source}: missing]`
  switch (format._tag) {
    case "text":
      return describeValue(value)
    case "number":
      return formatNumber(value) ?? describeFault(source, "not a number", value)
    case "date":
      return formatDate(value) ?? describeFault(source, "not a date", value)
    case "count":
      return formatCount(value) ?? describeFault(source, "not a list", value)
    case "money": {
      const currency = currencyOf(format.currency, root)
      return typeof currency === "string"
        ? (formatMoney(value, currency) ?? describeFault(source, "not a whole number of minor units", value))
        : `[${source}: ${describeValue(value)}, in no known currency]`
    }
  }
}

/** The code of the currency; undefined if the argument has none that is known. */
const currencyOf = (currency: string | Path, root: Schema.Json | undefined): string | undefined => {
  if (typeof currency === "string") return currency
  const value: Resolved = resolvePointer(root, currency.segments)
  const code = typeof value === "string" ? value.toUpperCase() : ""
  return isCurrency(code) ? code : undefined
}
