import type { OrgId } from "../../../domain/Ids.ts"
import { chargeTokens, rateLimit, takeToken } from "../../../domain/identity/RateLimit.ts"
import { encodeSpan } from "../../../domain/telemetry/OtlpJson.ts"
import { withToolAttributes } from "../../../domain/telemetry/toolAttributes.ts"
import type { Sampling } from "../../../domain/telemetry/SpanSampling.ts"
import type { TelemetrySignal, TraceMode } from "../../../domain/telemetry/TelemetryDestination.ts"
import { KeyedBudget } from "../../admission/KeyedBudget.ts"
import { BatchWriter } from "./BatchWriter.ts"
import type { Content } from "./Content.ts"
import {
  type SpanBatch,
  countOf,
  isTraceSampled,
  updateCount,
  type SpanDestination,
  type BufferedTrace,
  needsRecount,
  makeOrgBuffer,
  type OrgBuffer,
  type RecordedTrace,
  TRACE_CHARACTERS,
  toBufferedTrace
} from "./OrgBuffer.ts"
import { makeTraceAdmissions } from "./TraceAdmissions.ts"

/** Spans in one request. */
const MAX_BATCH_SPANS = 512

/** Bytes of one request's JSON, before compression. */
export const MAX_BATCH_BYTES = 1024 * 1024

/** Memory for encoded spans in this replica over all organizations, in bytes; beyond it spans are dropped. */
const MAX_BUFFERED_BYTES = 32 * 1024 * 1024

/**
 * Recorded traces not yet encoded, in characters: 16,384 traces without content. They are encoded as soon as the event
 * loop is free. One organization may use half: enough for 250 runs that end simultaneously, each with as much content
 * as is exported.
 */
const INBOX_CHARACTERS = 16_384 * TRACE_CHARACTERS

/** Batches in one transaction, and their bytes. */
const GROUP_BATCHES = 64
const GROUP_BYTES = 4 * 1024 * 1024

/**
 * How long a full batch waits to be stored with others, in milliseconds: under load they share a transaction, and their
 * attempts a read.
 */
const GROUP_WAIT_MILLIS = 100

/** The limits of an organization. */
export interface SpanLimits {
  readonly sampling: Sampling
  /** Pending spans, in the database and in memory. */
  readonly queueLimit: number
  readonly spansPerSecond: number
  readonly flushMillis: number
}

/** The spans of this replica that are not in the database yet. Plain and synchronous. */
export interface SpanBuffer {
  /** Creates an empty buffer for an organization. */
  readonly open: (org_id: OrgId, destination: SpanDestination, now: number) => OrgBuffer
  /** Whether a trace is sampled. Nothing of an unsampled trace is kept or counted. */
  readonly samples: (recorded: RecordedTrace, mode: TraceMode) => boolean
  /** Whether a trace exceeds the queue limit only by a count that may be out of date, so that a recount is worthwhile. */
  readonly needsRecount: (buffer: OrgBuffer, recorded: RecordedTrace, now: number) => boolean
  /** Admits a trace's spans or drops them. `at` in milliseconds since the epoch, `now` on the monotonic clock. */
  readonly admit: (buffer: OrgBuffer, recorded: RecordedTrace, at: number, now: number) => void
  /**
   * Updates an organization's count of pending spans in the database. `recount`: it was counted because there was no
   * capacity.
   */
  readonly updateCount: (buffer: OrgBuffer, waiting: number, now: number, recount: boolean) => void
  /** Admitted traces that are not encoded yet. */
  readonly unencodedCount: () => number
  /** The first admitted trace that is not encoded yet. */
  readonly nextUnencoded: () => BufferedTrace | undefined
  /** Organizations of the first `count` unencoded traces that export content. */
  readonly orgsWithContent: (count: number) => ReadonlySet<OrgId>
  /**
   * Encodes up to `count` unencoded traces in order with this content, as long as `hasTime` allows, but at least one.
   * Returns how many, and the faults thrown by `make`; a fault drops only its own trace.
   */
  readonly encode: (
    count: number,
    content: Content,
    now: number,
    hasTime: () => boolean
  ) => { readonly encoded: number; readonly faults: ReadonlyArray<unknown> }
  /** Counts spans as dropped. */
  readonly drop: (buffer: OrgBuffer, spans: number, now: number) => void
  /**
   * Closes the batches that have waited long enough, or all if `everything`, as long as `hasTime` allows, but at least
   * one. Returns whether none is left.
   */
  readonly closeDue: (now: number, everything: boolean, hasTime: () => boolean) => boolean
  /** Takes the closed batches, as many as one transaction may write, and the drops to report per organization. */
  readonly takeReady: () => {
    readonly batches: ReadonlyArray<SpanBatch>
    readonly drops: ReadonlyMap<OrgBuffer, number>
  }
  /** Frees a batch that was stored, or dropped while storing. */
  readonly release: (batch: SpanBatch) => void
  /** Restores drops that could not be reported, for the next time. */
  readonly restoreDrops: (drops: ReadonlyMap<OrgBuffer, number>, now: number) => void
  /** Whether a transaction has something to write now. */
  readonly hasReady: () => boolean
  /** When the closed batches are to be written, on the monotonic clock; Infinity if there are none. */
  readonly writeAt: () => number
  /** How long until there is something to close or to write, in milliseconds; null if nothing waits. */
  readonly dueIn: (now: number) => number | null
  /** Total number of spans in memory. */
  readonly spanCount: () => number
}

/**
 * Admits traces by arithmetic alone when they are recorded; encodes admitted traces a moment later, batched by
 * organization. Every sampled span that is dropped is counted.
 */
export const makeSpanBuffer = ({
  flushMillis,
  queueLimit,
  sampling,
  spansPerSecond
}: SpanLimits): SpanBuffer => {
  const traces = makeTraceAdmissions()
  const rate = rateLimit(spansPerSecond)
  /** Buffers with spans or with drops to report. */
  const dirty = new Set<OrgBuffer>()
  const drops = new Set<OrgBuffer>()
  const inboxBudget = new KeyedBudget<OrgId>({ total: INBOX_CHARACTERS, perKey: INBOX_CHARACTERS / 2 })
  let inbox: Array<BufferedTrace> = []
  /** Entries at the front of the inbox that are already encoded. */
  let encodedCount = 0
  let ready: Array<SpanBatch> = []
  let readyBytes = 0
  let writeAt = Infinity
  let bytes = 0
  let totalSpans = 0

  const touch = (buffer: OrgBuffer, now: number): void => {
    if (dirty.has(buffer)) return
    buffer.since = now
    dirty.add(buffer)
  }

  const drop = (buffer: OrgBuffer, spans: number, now: number): void => {
    buffer.dropped += spans
    touch(buffer, now)
  }

  const close = (buffer: OrgBuffer, signal: TelemetrySignal, at: number): void => {
    const writer = buffer.writers[signal]
    if (writer === undefined) return
    const { memoryBytes: before, spans } = writer
    const request = writer.finish()
    bytes += request.length - before
    ready.push({ buffer, signal, spans, request })
    readyBytes += request.length
    const full = ready.length >= GROUP_BATCHES || readyBytes >= GROUP_BYTES
    writeAt = full ? 0 : Math.min(writeAt, at)
    buffer.writers[signal] = undefined
  }

  /** Whether the limits admit a sampled trace. */
  const admits = ({ characters, buffer, recorded }: BufferedTrace, now: number): boolean => {
    const { trace_id, whole = false } = recorded
    const count = countOf(buffer, recorded)
    const decision = traces.decisionFor(trace_id, whole)
    if (decision === "refused") return false
    const hasCapacity =
      buffer.inMemory + buffer.inDatabase + count <= queueLimit &&
      bytes < MAX_BUFFERED_BYTES &&
      inboxBudget.fits(buffer.org_id, characters)
    if (!hasCapacity && decision === "admitted") return false
    if (decision === "admitted") {
      // On credit of up to a second's spans, so that the trace is whole. Traces that follow wait until it is repaid.
      const fullAt = chargeTokens(rate, buffer.rateFullAt, now, count)
      buffer.rateFullAt = Math.min(fullAt, now + 2 * rate.windowMillis)
      return true
    }
    const taken = takeToken(rate, buffer.rateFullAt, now, count)
    const admitted = hasCapacity && taken.allowed
    if (admitted) buffer.rateFullAt = taken.fullAt
    traces.remember(trace_id, admitted ? "admitted" : "refused", whole)
    return admitted
  }

  const append = (
    buffer: OrgBuffer,
    signal: TelemetrySignal,
    frame: readonly [string, string],
    text: string,
    now: number
  ): void => {
    touch(buffer, now)
    const open = buffer.writers[signal]
    if (open !== undefined) {
      const before = open.memoryBytes
      const fits = open.append(text)
      bytes += open.memoryBytes - before
      if (!fits || open.spans === MAX_BATCH_SPANS) close(buffer, signal, now + GROUP_WAIT_MILLIS)
      if (fits) return
    }
    const writer = new BatchWriter(frame, MAX_BATCH_BYTES)
    if (writer.append(text)) {
      bytes += writer.memoryBytes
      buffer.writers[signal] = writer
      return
    }
    // Too large for any request: only this span is dropped.
    buffer.inMemory--
    totalSpans--
    drop(buffer, 1, now)
  }

  return {
    open: (org_id, destination, now) => makeOrgBuffer(org_id, destination, now),
    samples: (recorded, mode) => isTraceSampled(sampling, recorded, mode),
    needsRecount: (buffer, recorded, now) => needsRecount(buffer, countOf(buffer, recorded), queueLimit, now),
    updateCount,
    admit: (buffer, recorded, at, now) => {
      if (!isTraceSampled(sampling, recorded, buffer.format.trace)) return
      const entry = toBufferedTrace(buffer, recorded, at)
      const count = countOf(buffer, recorded)
      if (!admits(entry, now)) return drop(buffer, count, now)
      buffer.inMemory += count
      totalSpans += count
      inboxBudget.take(buffer.org_id, entry.characters)
      inbox.push(entry)
    },
    unencodedCount: () => inbox.length - encodedCount,
    nextUnencoded: () => inbox[encodedCount],
    orgsWithContent: (count) => {
      const found = new Set<OrgId>()
      const end = Math.min(inbox.length, encodedCount + count)
      for (let index = encodedCount; index < end; index++) {
        const buffer = inbox[index]?.buffer
        if (buffer?.content === true) found.add(buffer.org_id)
      }
      return found
    },
    encode: (count, content, now, hasTime) => {
      const faults: Array<unknown> = []
      let encoded = 0
      // By index: copying the rest of the inbox for every time slice would cost more than encoding some of it.
      for (
        let entry = inbox[encodedCount];
        entry !== undefined && encoded < count;
        entry = inbox[encodedCount]
      ) {
        const { at, characters, buffer, recorded } = entry
        inboxBudget.giveBack(buffer.org_id, characters)
        const { format, frame, separate } = buffer
        let texts: ReadonlyArray<string> = []
        let score: string | undefined
        const admitted = countOf(buffer, recorded)
        try {
          texts = recorded
            .make(at, content, format)
            .map((span) => encodeSpan(withToolAttributes(span, format.scores), sampling.traceState))
          score = separate === null ? undefined : recorded.score?.(separate.scores, format.trace)
        } catch (fault) {
          texts = []
          faults.push(fault)
          drop(buffer, admitted, now)
        }
        const made = texts.length + (score === undefined ? 0 : 1)
        buffer.inMemory += made - admitted
        totalSpans += made - admitted
        for (const text of texts) append(buffer, "spans", frame, text, now)
        if (separate !== null && score !== undefined) append(buffer, "scores", separate.frame, score, now)
        encoded++
        encodedCount++
        if (!hasTime()) break
      }
      // Compacts once half of the list is encoded: each entry is moved once on average, and encoded entries are soon
      // freed.
      if (2 * encodedCount >= inbox.length) {
        inbox = inbox.slice(encodedCount)
        encodedCount = 0
      }
      return { encoded, faults }
    },
    drop,
    closeDue: (now, everything, hasTime) => {
      let closedAny = false
      for (const buffer of dirty) {
        if (!everything && now - buffer.since < flushMillis) continue
        if (closedAny && !hasTime()) return false
        closedAny = true
        dirty.delete(buffer)
        close(buffer, "spans", now)
        close(buffer, "scores", now)
        if (buffer.dropped > 0) {
          drops.add(buffer)
          writeAt = Math.min(writeAt, now)
        }
      }
      return true
    },
    takeReady: () => {
      let size = 0
      const end = ready.findIndex((batch, index) => {
        size += batch.request.length
        return index === GROUP_BATCHES || (index > 0 && size > GROUP_BYTES)
      })
      const batches = end < 0 ? ready : ready.slice(0, end)
      ready = end < 0 ? [] : ready.slice(end)
      for (const { request } of batches) readyBytes -= request.length
      writeAt = ready.length === 0 ? Infinity : 0
      const taken = new Map<OrgBuffer, number>()
      for (const buffer of drops) {
        taken.set(buffer, buffer.dropped)
        buffer.dropped = 0
      }
      drops.clear()
      return { batches, drops: taken }
    },
    release: (batch) => {
      batch.buffer.inMemory -= batch.spans
      totalSpans -= batch.spans
      bytes -= batch.request.length
    },
    restoreDrops: (taken, now) => {
      for (const [buffer, spans] of taken) drop(buffer, spans, now)
    },
    hasReady: () => ready.length > 0 || drops.size > 0,
    writeAt: () => writeAt,
    dueIn: (now) => {
      let due = writeAt
      for (const buffer of dirty) due = Math.min(due, buffer.since + flushMillis)
      return due === Infinity ? null : Math.max(0, due - now)
    },
    spanCount: () => totalSpans
  }
}
