/** Texts and chart data of the overview's figures. */

const dayFormat = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone: "UTC" })

/** A day such as `2026-11-21` in the form of the device's locale: `Nov 21`. */
export const dayLabel = (day: string): string => dayFormat.format(Date.parse(`${day}T00:00:00Z`))

/** The query of a list that shows one day in UTC, or the days from one to another. */
export const daysQuery = (
  first: string,
  last: string,
  end: "until" | "to" = "until"
): Readonly<Record<string, string>> => ({ from: `${first}Z`, [end]: `${last}Z` })

/** The query of a list that shows all days of a period. */
export const periodQuery = (
  days: ReadonlyArray<{ readonly day: string }>,
  end: "until" | "to" = "until"
): Readonly<Record<string, string>> => {
  const [first] = days
  const last = days.at(-1)
  return first === undefined || last === undefined ? {} : daysQuery(first.day, last.day, end)
}

/** A count with separators: `12,345`. */
export const countText = (count: number): string => count.toLocaleString("en")

/** A share as a percentage, or null without a whole. */
export const percentage = (part: number, whole: number): number | null =>
  whole === 0 ? null : (part / whole) * 100

/** A percentage as text: `97.3 %`. */
export const percentText = (value: number | null): string =>
  value === null ? "none" : `${oneDecimal(value)} %`

/** A time on an axis, in one unit: `8 min`. With a decimal, because the lines of a small axis are less than a unit apart. */
export const axisSeconds = (seconds: number): string => {
  if (seconds < 120) return `${oneDecimal(seconds)} s`
  if (seconds < 2 * 3_600) return `${oneDecimal(seconds / 60)} min`
  return seconds < 2 * 86_400 ? `${oneDecimal(seconds / 3_600)} h` : `${oneDecimal(seconds / 86_400)} d`
}

const oneDecimal = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 1 })
