import { DateTime, Effect, Schema } from "effect"
import { v4, v7 } from "uuid"
import { isVisibleLine } from "./VisibleText.ts"

/** Identifiers per read of the random source: one system call each would take a twentieth of a small request's CPU time. */
const POOLED_IDS = 256

const pool = new Uint8Array(16 * POOLED_IDS)
let poolOffset = pool.length

const randomBytes = (): Uint8Array => {
  if (poolOffset === pool.length) {
    globalThis.crypto.getRandomValues(pool)
    poolOffset = 0
  }
  return pool.subarray(poolOffset, (poolOffset += 16))
}

let lastMillis = 0
let sequence = 0

/**
 * The hex digits of a UUIDv7 that sorts after every earlier one of this process (RFC 9562, section 6.2, method 1). Within a millisecond,
 * and while the clock stands still or runs backwards, a 32-bit counter rises; it starts in the lower half of its range, so it does not
 * overflow. Reads the machine's clock directly, so that ids keep the order of creation when a test moves Effect's clock.
 */
export const uuidV7Hex = (): string => {
  const random = randomBytes()
  const now = Date.now()
  if (now > lastMillis) {
    lastMillis = now
    sequence = new DataView(random.buffer, random.byteOffset).getUint32(12) >>> 1
  } else sequence++
  return hex(v7({ random, msecs: lastMillis, seq: sequence }, uuid))
}

/** Reused by every call: `v7` writes into it, `hex` reads it. */
const uuid = new Uint8Array(16)

let timedSequence = 0

/**
 * The hex digits of a UUIDv7 of this time, in milliseconds since the Unix epoch, instead of the machine's. Of several
 * of one millisecond, the later call's sorts after the earlier one's, until the 32-bit counter wraps.
 */
const uuidV7HexAt = (millis: number): string =>
  hex(v7({ random: randomBytes(), msecs: millis, seq: timedSequence++ >>> 0 }, uuid))

const digits = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"))

const hex = (bytes: Uint8Array): string => {
  let text = ""
  for (const byte of bytes) text += digits[byte]
  return text
}

/**
 * Declares a kind of identifier: a prefix, `_`, and the 32 lowercase hex digits of a UUIDv7 (RFC 9562). Identifiers sort by creation time,
 * so a list in descending order of id is newest first. Each kind has its own brand: an `ApprovalId` is not assignable to a `SessionId`.
 */
const defineId = <B extends string>(
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
    /** Generates an identifier that sorts after every earlier one of this process. */
    generate: Effect.sync(next),
    /** Generates `count` identifiers in ascending order. */
    generateMany: (count: number) => Effect.sync(() => Array.from({ length: count }, next)),
    /** A text that sorts after the identifiers of earlier times, and before all others. */
    lowerBound: (at: DateTime.Utc) => `${prefix}_${uuidTimePrefix(at)}`,
    /** A text that sorts after the identifiers that were generated longer ago, by the machine's clock, and before all others. */
    lowerBoundAgo: (millis: number) =>
      Effect.sync(() => `${prefix}_${uuidTimePrefix(DateTime.makeUnsafe(Date.now() - millis))}`)
  })
}

/**
 * Declares a kind of identifier whose time is that of the record, by the database's clock, instead of the machine's: a range of ids is a range
 * of time, so the primary key finds the records of a time.
 */
const defineTimedId = <B extends string>(
  prefix: string,
  brand: (schema: Schema.String) => Schema.brand<Schema.String, B>
) => {
  const schema = defineId(prefix, brand)
  return Object.assign(schema, {
    /** Generates an identifier of this time. */
    generateAt: (at: DateTime.Utc) =>
      Effect.sync(() =>
        schema.make(`${prefix}_${uuidV7HexAt(at.epochMilliseconds)}`, { disableChecks: true })
      )
  })
}

export const OrgId = defineId("org", Schema.brand("OrgId"))
export type OrgId = typeof OrgId.Type

export const KeyId = defineId("key", Schema.brand("KeyId"))
export type KeyId = typeof KeyId.Type

/** An invitation to use an API key. */
export const InvitationId = defineId("inv", Schema.brand("InvitationId"))
export type InvitationId = typeof InvitationId.Type

export const TaskId = defineId("tsk", Schema.brand("TaskId"))
export type TaskId = typeof TaskId.Type

export const ReleaseId = defineId("rel", Schema.brand("ReleaseId"))
export type ReleaseId = typeof ReleaseId.Type

/** A run in the order of its task's runs. Its time is `created_at`. */
export const RunId = defineTimedId("run", Schema.brand("RunId"))
export type RunId = typeof RunId.Type

/** Feedback. Its time is `created_at`. */
export const FeedbackId = defineTimedId("fbk", Schema.brand("FeedbackId"))
export type FeedbackId = typeof FeedbackId.Type

export const FeedbackTokenId = defineId("fbt", Schema.brand("FeedbackTokenId"))
export type FeedbackTokenId = typeof FeedbackTokenId.Type

export const DatasetId = defineId("dst", Schema.brand("DatasetId"))
export type DatasetId = typeof DatasetId.Type

export const ExampleId = defineId("exm", Schema.brand("ExampleId"))
export type ExampleId = typeof ExampleId.Type

/** A deletion that a background worker performs. */
export const DeletionId = defineId("del", Schema.brand("DeletionId"))
export type DeletionId = typeof DeletionId.Type

export const ComparisonId = defineId("cmp", Schema.brand("ComparisonId"))
export type ComparisonId = typeof ComparisonId.Type

/** An agent session. Its time is `created_at`. */
export const SessionId = defineTimedId("ses", Schema.brand("SessionId"))
export type SessionId = typeof SessionId.Type

/** An approval. Its time is `requested_at`. */
export const ApprovalId = defineTimedId("apr", Schema.brand("ApprovalId"))
export type ApprovalId = typeof ApprovalId.Type

export const RuleId = defineId("rul", Schema.brand("RuleId"))
export type RuleId = typeof RuleId.Type

/** A standing grant. */
export const GrantId = defineId("grt", Schema.brand("GrantId"))
export type GrantId = typeof GrantId.Type

/** A claim of a governed step: one attempt to execute it. */
export const ClaimId = defineId("clm", Schema.brand("ClaimId"))
export type ClaimId = typeof ClaimId.Type

/** An answer of a reviewer model about a step. Its time is `created_at`. */
export const ReviewerAnswerId = defineTimedId("rva", Schema.brand("ReviewerAnswerId"))
export type ReviewerAnswerId = typeof ReviewerAnswerId.Type

export const EventId = defineId("evt", Schema.brand("EventId"))
export type EventId = typeof EventId.Type

export const EndpointId = defineId("nep", Schema.brand("EndpointId"))
export type EndpointId = typeof EndpointId.Type

/** A delivery to a webhook endpoint. Deliveries of other channels have their own prefixes. */
export const DeliveryId = defineId("ndl", Schema.brand("DeliveryId"))
export type DeliveryId = typeof DeliveryId.Type

/** A console session. */
export const ConsoleSessionId = defineId("cse", Schema.brand("ConsoleSessionId"))
export type ConsoleSessionId = typeof ConsoleSessionId.Type

/** An entry of the audit log. Its time is `occurred_at`. */
export const AuditEntryId = defineTimedId("aud", Schema.brand("AuditEntryId"))
export type AuditEntryId = typeof AuditEntryId.Type

export const TelemetryDestinationId = defineId("tel", Schema.brand("TelemetryDestinationId"))
export type TelemetryDestinationId = typeof TelemetryDestinationId.Type

/** A delivery of a batch of spans to a telemetry destination. */
export const TelemetryDeliveryId = defineId("tdl", Schema.brand("TelemetryDeliveryId"))
export type TelemetryDeliveryId = typeof TelemetryDeliveryId.Type

/** Longest step id, in characters. It is the longest segment of any path. */
export const MAX_STEP_ID_LENGTH = 200

/**
 * The name that an agent gives a step, unique in its session: 1 to 200 visible characters on one line. The agent chooses it, so it has no
 * prefix. `.` and `..` are rejected because it is a path segment, and clients and proxies remove those two.
 */
export const StepId = Schema.String.check(
  Schema.isMinLength(1),
  Schema.isMaxLength(MAX_STEP_ID_LENGTH),
  isVisibleLine,
  Schema.isPattern(/^(?!\.{1,2}$)/u, {
    expected: "a name that is neither . nor ..",
    // Not a pattern: it would need look-ahead, which many regular expression engines lack.
    toJsonSchema: () => [{ not: { enum: [".", ".."] } }, true]
  })
).pipe(Schema.brand("StepId"))
export type StepId = typeof StepId.Type

/** A W3C trace id: 32 lowercase hex digits. A response, its header and the exported spans carry the same value. */
export const TraceId = Schema.String.check(
  Schema.isPattern(/^[0-9a-f]{32}$/u, { expected: "32 lowercase hex digits" })
).pipe(Schema.brand("TraceId"))
export type TraceId = typeof TraceId.Type

/** Generates a trace id from the digits of a random UUID, which is never all zeros (W3C Trace Context, section 3.2.2.3). */
export const generateTraceId: Effect.Effect<TraceId> = Effect.sync(() =>
  TraceId.make(v4({ random: randomBytes() }).replaceAll("-", ""), { disableChecks: true })
)

/**
 * The largest error assumed in the clock of a replica that generated an id: the id contains the replica's time, the record the
 * database's.
 */
export const MAX_CLOCK_SKEW = "1 hour"

/** The first 12 hex digits of a UUIDv7 generated at this time (RFC 9562). Ids generated earlier sort before them. */
export const uuidTimePrefix = (at: DateTime.Utc): string =>
  Math.max(0, Math.floor(at.epochMilliseconds)).toString(16).padStart(12, "0")
