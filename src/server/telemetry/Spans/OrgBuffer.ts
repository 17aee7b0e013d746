import type { OrgId, TelemetryDestinationId, TraceId } from "../../../domain/Ids.ts"
import { envelope } from "../../../domain/telemetry/OtlpJson.ts"
import type { Span } from "../../../domain/telemetry/Span.ts"
import { exportSource } from "../../../domain/telemetry/SpanConventions.ts"
import { SpanBudget } from "../../../domain/telemetry/SpanSampling.ts"
import type { BatchWriter } from "./BatchWriter.ts"
import { type Content, capContent } from "./Content.ts"

/**
 * How long a count of what waits in the store is believed where it leaves no room: as long as the engine gathers what has ended before it
 * writes it down. Each time that nothing has ended meanwhile it is believed twice as long, up to half a second: a collector that hangs
 * costs its organization's runs no statement.
 */
const COUNT_TTL_MILLIS = 10
const MAX_COUNT_TTL_MILLIS = 500

/** Something that was done, as spans of one trace. */
export interface RecordedTrace {
  readonly trace_id: TraceId
  /** How many spans `make` makes. */
  readonly count: number
  /** Whether this is the whole trace, as of a run, but for feedback on it: such are remembered apart from those that go on. Default false. */
  readonly whole?: boolean
  /** Let go where the organization has content off, so `make` must not hold it too. Default: none. */
  readonly content?: Content
  /**
   * Makes them, later, off the path of who recorded; `at`: when they were recorded, in milliseconds since the epoch; `content`: what of
   * it goes out, free of secrets; nothing where the organization has it off.
   */
  readonly make: (at: number, content: Content) => ReadonlyArray<Span>
}

/** Characters that a trace is counted as, without its content. */
export const TRACE_CHARACTERS = 2_048

/** A trace as it waits in memory; `at`: when it was recorded, in milliseconds since the epoch. */
export interface PendingTrace {
  readonly recorded: RecordedTrace
  readonly at: number
  /** How many it is counted as. */
  readonly characters: number
}

/** A trace with what of its content may be wanted: where it may not go out, nothing of it. */
export const toPendingTrace = (recorded: RecordedTrace, at: number, wanted: boolean): PendingTrace => {
  const { content, count, make, trace_id, whole = false } = recorded
  if (content === undefined || !wanted) {
    return { recorded: { trace_id, count, whole, make }, at, characters: TRACE_CHARACTERS }
  }
  const held = capContent(content)
  return {
    recorded: { trace_id, count, whole, make, content: held.content },
    at,
    characters: TRACE_CHARACTERS + held.characters
  }
}

/** A trace that was taken in and is not encoded yet. */
export interface BufferedTrace extends PendingTrace {
  readonly buffer: OrgBuffer
}

/** What an organization that has a destination has in this process. */
export interface OrgBuffer {
  readonly org_id: OrgId
  readonly destination_id: TelemetryDestinationId
  readonly content: boolean
  readonly frame: readonly [string, string]
  readonly budget: SpanBudget
  writer: BatchWriter | undefined
  /** When the first span of `writer`, or the first drop that is not in the store yet, came; on the monotonic clock. */
  since: number
  /** Spans here, wherever in this process, that are not in the store yet. */
  inMemory: number
  /** Spans that wait in the store, as of `checked`, in milliseconds on the monotonic clock. */
  inDatabase: number
  countedAt: number
  /** How long that is believed, in milliseconds. */
  countTtlMillis: number
  /** Spans that were dropped and are not counted in the store yet. */
  dropped: number
}

/** Spans on their way to the store as one delivery. */
export interface SpanBatch {
  readonly buffer: OrgBuffer
  readonly spans: number
  /** The request, compressed. */
  readonly request: Uint8Array
}

/** What is known of an organization's destination. */
export interface SpanDestination {
  readonly destination_id: TelemetryDestinationId
  readonly content: boolean
  readonly waiting_spans: number
}

/** An organization's buffer, empty; `now` on the monotonic clock, in milliseconds. */
export const makeOrgBuffer = (
  org_id: OrgId,
  { content, destination_id, waiting_spans }: SpanDestination,
  spansPerSecond: number,
  now: number
): OrgBuffer => ({
  org_id,
  destination_id,
  content,
  frame: envelope(exportSource(org_id)),
  budget: new SpanBudget(spansPerSecond, now),
  writer: undefined,
  since: now,
  inMemory: 0,
  inDatabase: waiting_spans,
  countedAt: now,
  countTtlMillis: COUNT_TTL_MILLIS,
  dropped: 0
})

/** Whether so many spans find no room for all that is known, but for what may have been accepted meanwhile. */
export const needsRecount = (buffer: OrgBuffer, count: number, queueLimit: number, now: number): boolean =>
  buffer.inMemory + buffer.inDatabase + count > queueLimit &&
  buffer.inMemory + count <= queueLimit &&
  now - buffer.countedAt >= buffer.countTtlMillis

/** The store has said how many spans wait there; `asked`: because there was no room. */
export const updateCount = (buffer: OrgBuffer, waiting: number, now: number, asked: boolean): void => {
  if (waiting < buffer.inDatabase) buffer.countTtlMillis = COUNT_TTL_MILLIS
  else if (asked) buffer.countTtlMillis = Math.min(MAX_COUNT_TTL_MILLIS, 2 * buffer.countTtlMillis)
  buffer.inDatabase = waiting
  buffer.countedAt = now
}
