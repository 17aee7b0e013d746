import { DateTime, Duration, Option, Schema } from "effect"
import { Timestamp } from "../../domain/Time.ts"

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 }

const decodeTimestamp = Schema.decodeUnknownOption(Timestamp)

/** A time of a flag: `30d` (before another time), `2026-11-01` (in UTC) or RFC 3339. */
export const parseTime = (text: string, end: Timestamp): Option.Option<Timestamp> => {
  const [, count, unit] = /^(\d{1,6})([smhdw])$/.exec(text) ?? []
  const seconds = UNITS[unit ?? ""]
  if (seconds !== undefined)
    return Option.some(DateTime.subtractDuration(end, Duration.seconds(Number(count) * seconds)))
  return decodeTimestamp(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text)
}
