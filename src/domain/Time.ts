import { DateTime, Schema, SchemaTransformation } from "effect"

/** RFC 3339, section 5.6: date and time with an offset. Years 0001 to 9999, the range that PostgreSQL accepts in this form. */
const RFC_3339 = /^(?!0000)\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/u

/** RFC 3339 has no hour 24, which `Date` reads as the midnight that follows. */
const hasItsHour = (text: string): boolean => text.slice(11, 13) !== "24"

/** Whether the month has this day. `Date` alone would read 30 February as 2 March. */
const isOnCalendar = (text: string): boolean => {
  const midnight = new Date(`${text.slice(0, 10)}T00:00:00Z`)
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(text.slice(0, 10))
}

/** The annotation precedes the checks: JSON Schema generation ignores the annotations of a check. */
const makeTimestamp = (annotations: { readonly description?: string }) =>
  Schema.String.annotate({ format: "date-time", ...annotations })
    .check(
      Schema.isPattern(RFC_3339, {
        expected: "a time such as 2026-11-21T02:33:05.123Z (RFC 3339)",
        // `format` already documents it.
        toJsonSchema: () => [{}, true]
      }),
      Schema.makeFilter(isOnCalendar, { expected: "a day that its month has" }),
      Schema.makeFilter(hasItsHour, {
        expected: "an hour from 00 to 23: midnight is 00:00:00 of the next day"
      })
    )
    .pipe(Schema.decodeTo(Schema.DateTimeUtc, SchemaTransformation.dateTimeUtcFromString))

/**
 * A point in time: `DateTime.Utc` in code, RFC 3339 on the wire. Accepts any offset; always writes UTC with milliseconds
 * (`2026-11-21T02:33:05.123Z`). Rejects a day that its month does not have (RFC 3339, section 5.7).
 */
export const Timestamp = makeTimestamp({})
export type Timestamp = DateTime.Utc

/** A `Timestamp` property with its description, on the wire form: `annotateKey` does not reach a document through a transformation. */
export const timestamp = (description: string): typeof Timestamp => makeTimestamp({ description })

/** The wire form of a point in time, for JSON written without a schema. */
export const formatTimestamp = (at: Timestamp): string => DateTime.formatIso(at)

/** A point in time as the database driver returns it: a `Date`. */
export const TimestampFromDate = Schema.DateTimeUtcFromDate

/** A point in time as a statement's parameter. */
export const toDate = (at: Timestamp): Date => DateTime.toDateUtc(at)
