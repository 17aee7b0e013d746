import { DateTime, Effect, Schema } from "effect"
import { v4, v7 } from "uuid"
import { isVisibleLine } from "./VisibleText.ts"

/** Random bytes are drawn for this many identifiers at a time: a system call for each would be a twentieth of a small request. */
const DRAWN_AT_ONCE = 256

const pool = new Uint8Array(16 * DRAWN_AT_ONCE)
let drawn = pool.length

const draw = (): Uint8Array => {
  if (drawn === pool.length) {
    globalThis.crypto.getRandomValues(pool)
    drawn = 0
  }
  return pool.subarray(drawn, (drawn += 16))
}

let last = 0
let sequence = 0

/**
 * The digits of a UUIDv7 that is later than all this process made before (RFC 9562, 6.2, method 1): within a millisecond, and while
 * the clock stands or goes back, a counter of 32 bits rises; it starts in the lower half, so that it does not overflow. The
 * machine's clock is read directly: the order of ids is the order of their making, also where a test moves Effect's clock.
 */
export const uuidV7Hex = (): string => {
  const random = draw()
  const now = Date.now()
  if (now > last) {
    last = now
    sequence = new DataView(random.buffer, random.byteOffset).getUint32(12) >>> 1
  } else sequence++
  return hex(v7({ random, msecs: last, seq: sequence }, uuid))
}

/** The bytes of the identifier that is being made. */
const uuid = new Uint8Array(16)

const digits = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"))

const hex = (bytes: Uint8Array): string => {
  let text = ""
  for (const byte of bytes) text += digits[byte]
  return text
}

/**
 * Identifiers: a prefix, `_`, and a UUIDv7 (RFC 9562) without its dashes, in lowercase. They sort by the time they
 * were made, so a list newest first is a list by id. Each kind is a brand of its own: an `ApprovalId` does not
 * pass for a `SessionId`.
 */
const define = <B extends string>(
  prefix: string,
  brand: (schema: Schema.String) => Schema.brand<Schema.String, B>
) => {
  const schema = brand(
    Schema.String.check(
      Schema.isPattern(new RegExp(`^${prefix}_[0-9a-f]{32}$`, "u"), {
        expected: `an identifier that reads ${prefix}_ and 32 lowercase hex digits`
      })
    )
  )
  const next = () => schema.make(`${prefix}_${uuidV7Hex()}`, { disableChecks: true })
  return Object.assign(schema, {
    /** A new identifier, later than all this process made before. */
    generate: Effect.sync(next),
    /** As many of them, in order. */
    generateMany: (count: number) => Effect.sync(() => Array.from({ length: count }, next))
  })
}

export const OrgId = define("org", Schema.brand("OrgId"))
export type OrgId = typeof OrgId.Type

export const KeyId = define("key", Schema.brand("KeyId"))
export type KeyId = typeof KeyId.Type

export const TaskId = define("tsk", Schema.brand("TaskId"))
export type TaskId = typeof TaskId.Type

export const ReleaseId = define("rel", Schema.brand("ReleaseId"))
export type ReleaseId = typeof ReleaseId.Type

export const RunId = define("run", Schema.brand("RunId"))
export type RunId = typeof RunId.Type

export const FeedbackId = define("fbk", Schema.brand("FeedbackId"))
export type FeedbackId = typeof FeedbackId.Type

export const DatasetId = define("dst", Schema.brand("DatasetId"))
export type DatasetId = typeof DatasetId.Type

export const ExampleId = define("exm", Schema.brand("ExampleId"))
export type ExampleId = typeof ExampleId.Type

export const ComparisonId = define("cmp", Schema.brand("ComparisonId"))
export type ComparisonId = typeof ComparisonId.Type

export const SessionId = define("ses", Schema.brand("SessionId"))
export type SessionId = typeof SessionId.Type

export const ApprovalId = define("apr", Schema.brand("ApprovalId"))
export type ApprovalId = typeof ApprovalId.Type

export const RuleId = define("rul", Schema.brand("RuleId"))
export type RuleId = typeof RuleId.Type

export const EventId = define("evt", Schema.brand("EventId"))
export type EventId = typeof EventId.Type

export const EndpointId = define("nep", Schema.brand("EndpointId"))
export type EndpointId = typeof EndpointId.Type

/** A delivery of a notification. Those of other channels have prefixes of their own. */
export const DeliveryId = define("ndl", Schema.brand("DeliveryId"))
export type DeliveryId = typeof DeliveryId.Type

export const AuditEntryId = define("aud", Schema.brand("AuditEntryId"))
export type AuditEntryId = typeof AuditEntryId.Type

export const TelemetryDestinationId = define("tel", Schema.brand("TelemetryDestinationId"))
export type TelemetryDestinationId = typeof TelemetryDestinationId.Type

/** A delivery of a batch of spans. */
export const TelemetryDeliveryId = define("tdl", Schema.brand("TelemetryDeliveryId"))
export type TelemetryDeliveryId = typeof TelemetryDeliveryId.Type

/** The most characters of a step's name, which is the longest part that a path can have. */
export const MAX_STEP_ID_LENGTH = 200

/**
 * The name a caller gives a step of its session: 1 to 200 characters on one line, all of them visible. It is the
 * caller's own, so it has no prefix of ours. It is also a part of paths, from which clients and proxies take `.` and `..` away.
 */
export const StepId = Schema.String.check(
  Schema.isMinLength(1),
  Schema.isMaxLength(MAX_STEP_ID_LENGTH),
  isVisibleLine,
  Schema.isPattern(/^(?!\.{1,2}$)/u, { expected: "a name that is neither . nor .." })
).pipe(Schema.brand("StepId"))
export type StepId = typeof StepId.Type

/** 32 lowercase hex digits: a W3C trace id, the same value in an answer, a header and the exported spans. */
export const TraceId = Schema.String.check(
  Schema.isPattern(/^[0-9a-f]{32}$/u, { expected: "32 lowercase hex digits" })
).pipe(Schema.brand("TraceId"))
export type TraceId = typeof TraceId.Type

/** A new trace id: a random UUID's digits, so never all zero (W3C Trace Context, 3.2.2.3). */
export const generateTraceId: Effect.Effect<TraceId> = Effect.sync(() =>
  TraceId.make(v4({ random: draw() }).replaceAll("-", ""), { disableChecks: true })
)

/** The first twelve digits of ids that are made at a time (UUIDv7, RFC 9562): those made before it sort before them. */
export const uuidTimePrefix = (at: DateTime.Utc): string =>
  Math.max(0, Math.floor(at.epochMilliseconds)).toString(16).padStart(12, "0")

/**
 * A bound for ids of this prefix that were made at a time, some days aside of it: ids tell the time by the clock of the machine that made
 * them. Beside a condition on the time itself it keeps a list of long ago from reading all that came after.
 */
export const idBound = (prefix: string, at: DateTime.Utc, days: number): string =>
  `${prefix}_${uuidTimePrefix(DateTime.add(at, { days }))}`
