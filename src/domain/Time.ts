import { DateTime, Schema, SchemaTransformation } from "effect"

/** RFC 3339, 5.6: a full date and time with an offset, of the years 0001 to 9999, which the store takes too. */
const RFC_3339 = /^(?!0000)\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/u

/** Whether the day is one of its month: a 30th of February is elsewhere read as the 2nd of March. */
const isOnCalendar = (text: string): boolean => {
  const midnight = new Date(`${text.slice(0, 10)}T00:00:00Z`)
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(text.slice(0, 10))
}

/**
 * A point in time. On the wire RFC 3339 in UTC with milliseconds (`2026-11-21T02:33:05.123Z`); a point within the code.
 * Read with any offset, written in the one form. A day that its month has not is refused (RFC 3339, 5.7).
 */
export const Timestamp = Schema.String.check(
  Schema.isPattern(RFC_3339, { expected: "a time such as 2026-11-21T02:33:05.123Z (RFC 3339)" }),
  Schema.makeFilter(isOnCalendar, { expected: "a day that its month has" })
).pipe(Schema.decodeTo(Schema.DateTimeUtc, SchemaTransformation.dateTimeUtcFromString))
export type Timestamp = DateTime.Utc

/** The wire form of a point in time, for documents that are written without a schema. */
export const formatTimestamp = (at: Timestamp): string => DateTime.formatIso(at)

/** A point in time as the store gives it: a `Date`. */
export const TimestampFromDate = Schema.DateTimeUtcFromDate

/** A point in time as a parameter of a statement. */
export const toDate = (at: Timestamp): Date => DateTime.toDateUtc(at)
