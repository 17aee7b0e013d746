import { DateTime } from "effect"
import type { Timestamp } from "../../domain/Time.ts"
import { useNow } from "../state/useNow.ts"

let dateTimeFormat: Intl.DateTimeFormat | undefined
let timeFormat: Intl.DateTimeFormat | undefined
let relativeFormat: Intl.RelativeTimeFormat | undefined

/** Date and time. The formatters are created on first use, because creating one takes several milliseconds. */
const dateTimeText = (millis: number): string =>
  (dateTimeFormat ??= new Intl.DateTimeFormat(undefined, {
    dateStyle: "medium",
    timeStyle: "medium"
  })).format(millis)

const timeText = (millis: number): string =>
  (timeFormat ??= new Intl.DateTimeFormat(undefined, { timeStyle: "medium" })).format(millis)

/** For comparing with logs, which are in UTC: `2026-11-23 17:40:21 UTC`. */
const utcText = (millis: number): string =>
  `${new Date(millis).toISOString().slice(0, 19).replace("T", " ")} UTC`

const relativeText = (value: number, unit: Intl.RelativeTimeFormatUnit): string =>
  (relativeFormat ??= new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" })).format(
    value,
    unit
  )

const MINUTE = 60
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Formats a duration with at most two units: `3 d 4 h`, `12 min`, `48 s`. */
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

/** Date and time in the device's locale and time zone, with UTC as a tooltip. */
export const AbsoluteTime = ({ time }: { readonly time: Timestamp | null }) =>
  time === null ? (
    <span className="quiet">never</span>
  ) : (
    <time dateTime={DateTime.formatIso(time)} title={utcText(DateTime.toEpochMillis(time))}>
      {dateTimeText(DateTime.toEpochMillis(time))}
    </time>
  )

/** The time of day, with the full date as a tooltip. For lists of events that are close together. */
export const TimeOfDay = ({ time }: { readonly time: Timestamp }) => {
  const at = DateTime.toEpochMillis(time)
  return (
    <time dateTime={DateTime.formatIso(time)} title={`${dateTimeText(at)} (${utcText(at)})`}>
      {timeText(at)}
    </time>
  )
}

/** The time relative to now, such as `5 min. ago`, with the exact time as a tooltip. */
export const RelativeTime = ({ time }: { readonly time: Timestamp | null }) => {
  const now = useNow()
  if (time === null) return <span className="quiet">never</span>
  const at = DateTime.toEpochMillis(time)
  return (
    <time dateTime={DateTime.formatIso(time)} title={`${dateTimeText(at)} (${utcText(at)})`}>
      {agoText((at - now) / 1_000)}
    </time>
  )
}

/** Formats a time relative to now, in the largest unit of which it has one when rounded. */
export const agoText = (seconds: number): string => {
  if (Math.abs(seconds) < 5) return "now"
  const [whole, minutes, hours] = [
    Math.round(seconds),
    Math.round(seconds / MINUTE),
    Math.round(seconds / HOUR)
  ]
  if (Math.abs(whole) < 60) return relativeText(whole, "second")
  if (Math.abs(minutes) < 60) return relativeText(minutes, "minute")
  if (Math.abs(hours) < 24) return relativeText(hours, "hour")
  return relativeText(Math.round(seconds / DAY), "day")
}

/** The time left until a deadline. It is highlighted in the last minute and in the last tenth of the window. */
export const Countdown = ({
  from,
  suffix = "",
  until
}: {
  readonly from?: Timestamp | undefined
  readonly until: Timestamp
  /** Text after the time, such as ` left`. */ readonly suffix?: string
}) => {
  const now = useNow()
  const end = DateTime.toEpochMillis(until)
  const left = (end - now) / 1_000
  const whole = from === undefined ? 0 : (end - DateTime.toEpochMillis(from)) / 1_000
  const near = left <= 60 || left <= whole / 10
  return (
    <time
      dateTime={DateTime.formatIso(until)}
      title={dateTimeText(end)}
      className={near ? "countdown near" : "countdown"}
    >
      {formatSeconds(left) + suffix}
    </time>
  )
}
