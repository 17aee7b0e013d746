import { DateTime, Schema } from "effect"

/**
 * A point in time. On the wire RFC 3339 in UTC with milliseconds (`2026-11-21T02:33:05.123Z`); a point within the code.
 * Read leniently (any RFC 3339 offset), written in the one form.
 */
export const Timestamp = Schema.DateTimeUtcFromString
export type Timestamp = DateTime.Utc

/** The wire form of a point in time, for documents that are written without a schema. */
export const formatTimestamp = (at: Timestamp): string => DateTime.formatIso(at)

/** A point in time as the store gives it: a `Date`. */
export const TimestampFromDate = Schema.DateTimeUtcFromDate

/** A point in time as a parameter of a statement. */
export const toDate = (at: Timestamp): Date => DateTime.toDateUtc(at)
