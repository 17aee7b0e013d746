import { DateTime } from "effect"
import type { Timestamp } from "../../domain/Time.ts"
import { useNow } from "../state/useNow.ts"

let full: Intl.DateTimeFormat | undefined
let clock: Intl.DateTimeFormat | undefined
let relative: Intl.RelativeTimeFormat | undefined

/** The day and the time. The formatters are made when the first is needed: that takes some milliseconds. */
const fullText = (millis: number): string =>
  (full ??= new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" })).format(millis)

const clockText = (millis: number): string =>
  (clock ??= new Intl.DateTimeFormat(undefined, { timeStyle: "medium" })).format(millis)

const relativeText = (value: number, unit: Intl.RelativeTimeFormatUnit): string =>
  (relative ??= new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" })).format(value, unit)

const MINUTE = 60
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Two units at most: `3 d 4 h`, `12 min`, `48 s`. */
export const formatSeconds = (seconds: number): string => {
  const whole = Math.max(0, Math.floor(seconds))
  if (whole < MINUTE) return `${whole} s`
  if (whole < 10 * MINUTE) {
    const rest = whole % MINUTE
    return rest === 0 ? `${whole / MINUTE} min` : `${Math.floor(whole / MINUTE)} min ${rest} s`
  }
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} min`
  if (whole < DAY) {
    const minutes = Math.floor((whole % HOUR) / MINUTE)
    return minutes === 0 ? `${Math.floor(whole / HOUR)} h` : `${Math.floor(whole / HOUR)} h ${minutes} min`
  }
  const hours = Math.floor((whole % DAY) / HOUR)
  return hours === 0 ? `${Math.floor(whole / DAY)} d` : `${Math.floor(whole / DAY)} d ${hours} h`
}

/** A point in time, as it is read on this device. */
export const AbsoluteTime = ({ time }: { readonly time: Timestamp | null }) =>
  time === null ? (
    <span className="quiet">never</span>
  ) : (
    <time dateTime={DateTime.formatIso(time)}>{fullText(DateTime.toEpochMillis(time))}</time>
  )

/** The time of day, with the day on pointing at it: for moments that lie close together. */
export const TimeOfDay = ({ time }: { readonly time: Timestamp }) => {
  const at = DateTime.toEpochMillis(time)
  return (
    <time dateTime={DateTime.formatIso(time)} title={fullText(at)}>
      {clockText(at)}
    </time>
  )
}

/** How long ago, with the exact time on pointing at it. */
export const RelativeTime = ({ time }: { readonly time: Timestamp | null }) => {
  const now = useNow()
  if (time === null) return <span className="quiet">never</span>
  const at = DateTime.toEpochMillis(time)
  return (
    <time dateTime={DateTime.formatIso(time)} title={fullText(at)}>
      {agoText((at - now) / 1_000)}
    </time>
  )
}

const agoText = (seconds: number): string => {
  const size = Math.abs(seconds)
  if (size < 5) return "now"
  if (size < MINUTE) return relativeText(Math.round(seconds), "second")
  if (size < HOUR) return relativeText(Math.round(seconds / MINUTE), "minute")
  if (size < DAY) return relativeText(Math.round(seconds / HOUR), "hour")
  return relativeText(Math.round(seconds / DAY), "day")
}

/** What is left until a deadline. Under a tenth of the window, or a minute, it is marked as near. */
export const Countdown = ({
  after = "",
  from,
  until
}: {
  readonly from?: Timestamp | undefined
  readonly until: Timestamp
  /** What is said after the time, where nothing before it says what it is. */
  readonly after?: string
}) => {
  const now = useNow()
  const end = DateTime.toEpochMillis(until)
  const left = (end - now) / 1_000
  const whole = from === undefined ? 0 : (end - DateTime.toEpochMillis(from)) / 1_000
  const near = left <= 60 || left <= whole / 10
  return (
    <time
      dateTime={DateTime.formatIso(until)}
      title={fullText(end)}
      className={near ? "countdown near" : "countdown"}
    >
      {left <= 0 ? "closing" : formatSeconds(left) + after}
    </time>
  )
}
