import type { OrgId, TelemetryDestinationId, TraceId } from "../../../domain/Ids.ts"
import {
  type ExportFormat,
  hasSeparateScores,
  type SeparateScores,
  scoreEnvelope
} from "../../../domain/telemetry/FeedbackConventions.ts"
import { envelope } from "../../../domain/telemetry/OtlpJson.ts"
import type { Span, TraceContext } from "../../../domain/telemetry/Span.ts"
import { exportedTrace, exportSource } from "../../../domain/telemetry/SpanConventions.ts"
import { isSampled, type Sampling } from "../../../domain/telemetry/SpanSampling.ts"
import type {
  ScoreFormat,
  TelemetrySignal,
  TraceMode
} from "../../../domain/telemetry/TelemetryDestination.ts"
import type { BatchWriter } from "./BatchWriter.ts"
import { type Content, capContent } from "./Content.ts"

/**
 * How long a count of pending spans in the database is trusted while it leaves no capacity, in milliseconds: as long as
 * the engine gathers results before it records them. Each recount that finds no progress doubles the time, up to half a
 * second, so that a hanging collector costs its organization's runs no statement.
 */
const COUNT_TTL_MILLIS = 10
const MAX_COUNT_TTL_MILLIS = 500

/** Spans of one trace, to be recorded. */
export interface RecordedTrace {
  readonly trace_id: TraceId
  /** The number of spans that `make` returns. */
  readonly count: number
  /** The caller's span, whose trace a destination with `trace: "join"` gets the spans in. Default: none. */
  readonly caller?: TraceContext | null
  /** Encodes the score in the trace, for a destination that gets scores apart from spans. Default: there is none. */
  readonly score?: (scores: SeparateScores, trace: TraceMode) => string
  /**
   * Whether these are all spans of the trace, as of a run; feedback on it may still follow. Whole traces are remembered
   * apart from traces that continue. Default false.
   */
  readonly whole?: boolean
  /** Discarded if the organization has content off, so `make` must not capture it. Default: none. */
  readonly content?: Content
  /**
   * Makes the spans later, outside the recording caller's path. `at`: when they were recorded, in milliseconds since
   * the epoch. `content`: the redacted content to export; empty if the organization has content off.
   */
  readonly make: (at: number, content: Content, format: ExportFormat) => ReadonlyArray<Span>
}

/** Whether a trace is sampled. In a caller's trace this is also the caller's decision: a fragment of a trace is useless. */
export const isTraceSampled = (
  sampling: Sampling,
  { caller = null, trace_id }: RecordedTrace,
  mode: TraceMode
): boolean => {
  const exported = exportedTrace({ trace_id, caller }, mode)
  return (
    (exported.caller === null || (exported.caller.flags & 1) === 1) && isSampled(sampling, exported.trace_id)
  )
}

/** Characters that a trace without content is counted as. */
export const TRACE_CHARACTERS = 2_048

/** A trace waiting in memory. `at`: when it was recorded, in milliseconds since the epoch. */
export interface PendingTrace {
  readonly recorded: RecordedTrace
  readonly at: number
  /** How many characters it is counted as. */
  readonly characters: number
}

/** Builds a pending trace; drops its content unless `keepContent`. */
export const toPendingTrace = (recorded: RecordedTrace, at: number, keepContent: boolean): PendingTrace => {
  if (recorded.content === undefined) return { recorded, at, characters: TRACE_CHARACTERS }
  const { content, ...rest } = recorded
  if (!keepContent) return { recorded: rest, at, characters: TRACE_CHARACTERS }
  const capped = capContent(content)
  return {
    recorded: { ...rest, content: capped.content },
    at,
    characters: TRACE_CHARACTERS + capped.characters
  }
}

/** A trace that was admitted and is not encoded yet. */
export interface BufferedTrace extends PendingTrace {
  readonly buffer: OrgBuffer
}

/** Builds a buffered trace; drops its content unless the organization exports content. */
export const toBufferedTrace = (buffer: OrgBuffer, recorded: RecordedTrace, at: number): BufferedTrace =>
  // Most traces have no content: one object instead of two.
  recorded.content === undefined
    ? { buffer, recorded, at, characters: TRACE_CHARACTERS }
    : { buffer, ...toPendingTrace(recorded, at, buffer.content) }

/** The spans of one organization in this replica that are not in the database yet, and the limits that apply to them. */
export interface OrgBuffer {
  readonly org_id: OrgId
  readonly destination_id: TelemetryDestinationId
  readonly content: boolean
  readonly format: ExportFormat
  /** The text before and after the spans of a request. */
  readonly frame: readonly [string, string]
  /** The format of scores that are sent apart from spans, and the text before and after them; null if they are not. */
  readonly separate: { readonly scores: SeparateScores; readonly frame: readonly [string, string] } | null
  /** When the token bucket of its spans is full again; on the monotonic clock. */
  rateFullAt: number
  readonly writers: Record<TelemetrySignal, BatchWriter | undefined>
  /** When the first span or score of `writers`, or the first drop not yet in the database, arrived; on the monotonic clock. */
  since: number
  /** Spans in this replica that are not in the database yet. */
  inMemory: number
  /** Pending spans in the database as of `countedAt`, in milliseconds on the monotonic clock. */
  inDatabase: number
  countedAt: number
  /** How long that count is trusted, in milliseconds. */
  countTtlMillis: number
  /** Dropped spans that the database does not count yet. */
  dropped: number
}

/** Spans or scores to be stored as one delivery. */
export interface SpanBatch {
  readonly buffer: OrgBuffer
  readonly signal: TelemetrySignal
  /** The number of spans or scores. */
  readonly spans: number
  /** The gzipped request. */
  readonly request: Uint8Array
}

/** The destination of an organization, as read from the database. */
export interface SpanDestination {
  readonly destination_id: TelemetryDestinationId
  readonly content: boolean
  readonly trace: TraceMode
  readonly scores: ScoreFormat
  readonly waiting_spans: number
}

/** Creates an empty buffer; `now` on the monotonic clock, in milliseconds. */
export const makeOrgBuffer = (
  org_id: OrgId,
  { content, destination_id, scores, trace, waiting_spans }: SpanDestination,
  now: number
): OrgBuffer => ({
  org_id,
  destination_id,
  content,
  format: { trace, scores },
  frame: envelope(exportSource(org_id)),
  separate: hasSeparateScores(scores) ? { scores, frame: scoreEnvelope(org_id, scores) } : null,
  rateFullAt: now,
  writers: { spans: undefined, scores: undefined },
  since: now,
  inMemory: 0,
  inDatabase: waiting_spans,
  countedAt: now,
  countTtlMillis: COUNT_TTL_MILLIS,
  dropped: 0
})

/** The spans of a trace that its destination gets, and its score if that is sent apart from spans. */
export const countOf = (buffer: Pick<OrgBuffer, "separate">, { count, score }: RecordedTrace): number =>
  count + (buffer.separate !== null && score !== undefined ? 1 : 0)

/**
 * Whether the spans exceed the queue limit only by a count that may be out of date: the collector may have accepted
 * spans since.
 */
export const needsRecount = (buffer: OrgBuffer, count: number, queueLimit: number, now: number): boolean =>
  buffer.inMemory + buffer.inDatabase + count > queueLimit &&
  buffer.inMemory + count <= queueLimit &&
  now - buffer.countedAt >= buffer.countTtlMillis

/** Updates the count of pending spans in the database. `recount`: it was counted because there was no capacity. */
export const updateCount = (buffer: OrgBuffer, waiting: number, now: number, recount: boolean): void => {
  if (waiting < buffer.inDatabase) buffer.countTtlMillis = COUNT_TTL_MILLIS
  else if (recount) buffer.countTtlMillis = Math.min(MAX_COUNT_TTL_MILLIS, 2 * buffer.countTtlMillis)
  buffer.inDatabase = waiting
  buffer.countedAt = now
}
