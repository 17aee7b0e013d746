import { DateTime, Option, type Schema } from "effect"
import { isArray } from "../CompiledRules/resolvePointer.ts"
import { minorUnitDigits } from "./currencies.ts"
import { DECIMAL, describeValue } from "./describeValue.ts"

/** What could not be formatted, in brackets. */
export const describeFault = (source: string, fault: string, value: Schema.Json): string =>
  `[${source}: ${describeValue(value)}, ${fault}]`

const INTEGER = /^-?\d{1,30}$/u

/** The decimal digits of a number, or of a text that is one; undefined otherwise, also for a number too large to have them. */
const decimalOf = (value: Schema.Json): string | undefined => {
  const text = typeof value === "number" ? String(value) : typeof value === "string" ? value : ""
  return DECIMAL.test(text) ? text : undefined
}

const grouped = (digits: string): string => digits.replace(/\B(?=(?:\d{3})+$)/gu, ",")

/** Without leading zeros. */
const wholePart = (digits: string): string => grouped(digits.replace(/^0+(?=\d)/u, ""))

/** A number with thousands separated by commas, with all its decimals. */
export const formatNumber = (value: Schema.Json): string | undefined => {
  const text = decimalOf(value)
  if (text === undefined) return typeof value === "number" ? String(value) : undefined
  const [whole = "", decimals] = text.replace("-", "").split(".")
  return `${text.startsWith("-") ? "-" : ""}${wholePart(whole)}${decimals === undefined ? "" : `.${decimals}`}`
}

/** An amount in minor units, such as cents, with its currency. */
export const formatMoney = (value: Schema.Json, currency: string): string | undefined => {
  // A number that is not safe has lost digits before it came here.
  if (typeof value === "number" && !Number.isSafeInteger(value)) return undefined
  const text = decimalOf(value)
  if (text === undefined || !INTEGER.test(text)) return undefined
  const digits = minorUnitDigits(currency)
  const amount = text.replace("-", "").padStart(digits + 1, "0")
  const whole = wholePart(amount.slice(0, amount.length - digits))
  const minor = digits === 0 ? "" : `.${amount.slice(-digits)}`
  return `${text.startsWith("-") ? "-" : ""}${whole}${minor} ${currency}`
}

const DATE = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(?::\d{2}(?:\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?$/u

/** A date of ISO 8601; with a zone, its time in UTC. */
export const formatDate = (value: Schema.Json): string | undefined => {
  const match = typeof value === "string" ? DATE.exec(value) : null
  if (match === null || typeof value !== "string") return undefined
  const [, day = "", time, zone] = match
  const midnight = new Date(`${day}T00:00:00Z`)
  // `Date` would take the 31st of April for the 1st of May.
  if (Number.isNaN(midnight.getTime()) || midnight.toISOString().slice(0, 10) !== day) return undefined
  if (time === undefined) return day
  const instant = DateTime.make(zone === undefined ? `${value.replace(" ", "T")}Z` : value.replace(" ", "T"))
  if (Option.isNone(instant)) return undefined
  const iso = DateTime.formatIso(instant.value)
  // A year before 0 or after 9999 has another form.
  return iso.length === 24
    ? `${iso.slice(0, 10)} ${iso.slice(11, 16)}${zone === undefined ? "" : " UTC"}`
    : undefined
}

/** The number of elements of a list. */
export const formatCount = (value: Schema.Json): string | undefined =>
  isArray(value) ? grouped(String(value.length)) : undefined
