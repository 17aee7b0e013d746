/** Durations, in the forms that Effect has too. */

type Unit = "milli" | "second" | "minute" | "hour" | "day"

/** A number of milliseconds, or text such as `"30 seconds"`. */
export type Duration = number | `${number} ${Unit | `${Unit}s`}`

const MILLIS: Readonly<Record<Unit, number>> = {
  milli: 1,
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000
}

/** The longest timer; a longer one would fire immediately. */
export const MAX_TIMER_MILLIS = 2 ** 31 - 1

/** Milliseconds of a duration, at most the longest time of a timer. Throws a `TypeError` for other text. */
export const toMillis = (duration: Duration): number => {
  const millis = typeof duration === "number" ? duration : parse(duration)
  if (Number.isNaN(millis)) {
    throw new TypeError(`A duration is a number of milliseconds, or text such as "30 seconds"`)
  }
  return Math.min(Math.max(millis, 0), MAX_TIMER_MILLIS)
}

const parse = (text: string): number => {
  const [, amount, unit = ""] = /^(\d+(?:\.\d+)?) ([a-z]+?)s?$/.exec(text) ?? []
  return isUnit(unit) ? Number(amount) * MILLIS[unit] : NaN
}

const isUnit = (text: string): text is Unit => Object.hasOwn(MILLIS, text)
