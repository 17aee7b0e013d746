import type { OrgId, TraceId } from "../../../domain/Ids.ts"
import { encodeSpan } from "../../../domain/telemetry/OtlpJson.ts"
import { isSampled, type Sampling } from "../../../domain/telemetry/SpanSampling.ts"
import { BatchWriter } from "./BatchWriter.ts"
import type { Content } from "./Content.ts"
import {
  type SpanBatch,
  updateCount,
  type SpanDestination,
  type BufferedTrace,
  needsRecount,
  makeOrgBuffer,
  type OrgBuffer,
  type RecordedTrace,
  TRACE_CHARACTERS,
  toPendingTrace
} from "./OrgBuffer.ts"
import { makeFairBudget } from "./FairBudget.ts"
import { makeTraceAdmissions } from "./TraceAdmissions.ts"

/** Spans of one request. */
const MAX_BATCH_SPANS = 512

/** Bytes of one request's JSON, before it is compressed. */
export const MAX_BATCH_BYTES = 1024 * 1024

/** Bytes that encoded spans take in this process, over all organizations; past it spans are dropped. */
const MAX_BUFFERED_BYTES = 32 * 1024 * 1024

/**
 * Traces that were recorded and not yet encoded, in characters: 16,384 without content. They are encoded as soon as the process has a moment.
 * An organization has half of it: 250 runs that end at once find room, each with as much content as is exported.
 */
const INBOX_CHARACTERS = 16_384 * TRACE_CHARACTERS

/** Batches that one transaction writes, and their bytes. */
const GROUP_BATCHES = 64
const GROUP_BYTES = 4 * 1024 * 1024

/** How long a batch that is full waits for others to be written with: under load they share a transaction, and the attempts after it. */
const GROUP_WAIT_MILLIS = 100

/** The limits of an organization. */
export interface SpanLimits {
  readonly sampling: Sampling
  /** Spans that may wait, in the store and here. */
  readonly queueLimit: number
  readonly spansPerSecond: number
  readonly flushMillis: number
}

/** The spans of this process that are not in the store yet. Plain and synchronous. */
export interface SpanBuffer {
  /** An organization's buffer, empty. */
  readonly open: (org_id: OrgId, destination: SpanDestination, now: number) => OrgBuffer
  /** Whether a trace is sampled: of one that is not, nothing is kept or counted. */
  readonly samples: (trace_id: TraceId) => boolean
  /** Whether a trace finds no room for all that is known, but for what may have been accepted meanwhile: worth a look into the store. */
  readonly needsRecount: (buffer: OrgBuffer, recorded: RecordedTrace, now: number) => boolean
  /** Takes a trace's spans in, or does not; `at` in milliseconds since the epoch, `now` on the monotonic clock. */
  readonly admit: (buffer: OrgBuffer, recorded: RecordedTrace, at: number, now: number) => void
  /** The store has said how many spans of an organization wait there; `asked`: because there was no room. */
  readonly updateCount: (buffer: OrgBuffer, waiting: number, now: number, asked: boolean) => void
  /** Traces that were taken in and are not encoded yet. */
  readonly unencodedCount: () => number
  /** The first of them. */
  readonly nextUnencoded: () => BufferedTrace | undefined
  /** Organizations whose content goes out, among the first so many of these traces. */
  readonly orgsWithContent: (count: number) => ReadonlySet<OrgId>
  /**
   * Encodes so many of them at most, in order, with this of their content, as long as there is time; one at least. Answers with how many
   * those were, and with what went wrong, which costs that trace alone.
   */
  readonly encode: (
    count: number,
    content: Content,
    now: number,
    hasTime: () => boolean
  ) => { readonly encoded: number; readonly faults: ReadonlyArray<unknown> }
  /** Counts spans that go no further. */
  readonly drop: (buffer: OrgBuffer, spans: number, now: number) => void
  /**
   * Closes the batches that have waited long enough, all of them where `everything`, as long as there is time; one at least. Whether that
   * was the last one.
   */
  readonly closeDue: (now: number, everything: boolean, hasTime: () => boolean) => boolean
  /** Takes batches that are closed, as many as one transaction may write, and the outboxes that have drops to tell. */
  readonly takeReady: () => {
    readonly batches: ReadonlyArray<SpanBatch>
    readonly drops: ReadonlyMap<OrgBuffer, number>
  }
  /** A batch is in the store, or was dropped there: it is no longer held here. */
  readonly release: (batch: SpanBatch) => void
  /** Drops could not be told: they are told another time. */
  readonly restoreDrops: (drops: ReadonlyMap<OrgBuffer, number>, now: number) => void
  /** Whether there is something that a transaction could write now. */
  readonly hasReady: () => boolean
  /** When what is ready is to be written, on the monotonic clock; Infinity: nothing is ready. */
  readonly writeAt: () => number
  /** How long until there is something to close or to write, in milliseconds; null: nothing waits. */
  readonly dueIn: (now: number) => number | null
  /** Spans that are here in all. */
  readonly spanCount: () => number
}

/**
 * A trace is judged when it is recorded, by arithmetic alone; what is kept is encoded a moment later, and gathered by organization. Every
 * span that is sampled and goes no further is counted.
 */
export const makeSpanBuffer = ({
  flushMillis,
  queueLimit,
  sampling,
  spansPerSecond
}: SpanLimits): SpanBuffer => {
  const traces = makeTraceAdmissions()
  /** Outboxes with spans, or with drops to tell. */
  const dirty = new Set<OrgBuffer>()
  const drops = new Set<OrgBuffer>()
  const inboxBudget = makeFairBudget(INBOX_CHARACTERS)
  let inbox: Array<BufferedTrace> = []
  /** Entries at its beginning that are encoded already. */
  let encodedCount = 0
  let ready: Array<SpanBatch> = []
  let readyBytes = 0
  let writeAt = Infinity
  let bytes = 0
  let held = 0

  const touch = (buffer: OrgBuffer, now: number): void => {
    if (dirty.has(buffer)) return
    buffer.since = now
    dirty.add(buffer)
  }

  const drop = (buffer: OrgBuffer, spans: number, now: number): void => {
    buffer.dropped += spans
    touch(buffer, now)
  }

  const close = (buffer: OrgBuffer, at: number): void => {
    if (buffer.writer === undefined) return
    const { held: before, spans } = buffer.writer
    const request = buffer.writer.finish()
    bytes += request.length - before
    ready.push({ buffer, spans, request })
    readyBytes += request.length
    const full = ready.length >= GROUP_BATCHES || readyBytes >= GROUP_BYTES
    writeAt = full ? 0 : Math.min(writeAt, at)
    buffer.writer = undefined
  }

  /** Whether the limits let a trace in that is sampled. */
  const admits = ({ characters, buffer, recorded }: BufferedTrace, now: number): boolean => {
    const { count, trace_id, whole = false } = recorded
    const known = traces.decisionFor(trace_id)
    if (known === "refused") return false
    const roomy =
      buffer.inMemory + buffer.inDatabase + count <= queueLimit &&
      bytes < MAX_BUFFERED_BYTES &&
      inboxBudget.fits(buffer.org_id, characters)
    if (known === "admitted") {
      if (roomy) buffer.budget.charge(count, now)
      return roomy
    }
    const admitted = roomy && buffer.budget.admit(count, now)
    traces.remember(trace_id, admitted ? "admitted" : "refused", whole)
    return admitted
  }

  const append = (buffer: OrgBuffer, text: string, now: number): void => {
    touch(buffer, now)
    if (buffer.writer !== undefined) {
      const before = buffer.writer.held
      const fits = buffer.writer.append(text)
      bytes += buffer.writer.held - before
      if (!fits || buffer.writer.spans === MAX_BATCH_SPANS) close(buffer, now + GROUP_WAIT_MILLIS)
      if (fits) return
    }
    const writer = new BatchWriter(buffer.frame, MAX_BATCH_BYTES)
    if (writer.append(text)) {
      bytes += writer.held
      buffer.writer = writer
      return
    }
    // Too large for any request: dropped alone.
    buffer.inMemory--
    held--
    drop(buffer, 1, now)
  }

  return {
    open: (org_id, destination, now) => makeOrgBuffer(org_id, destination, spansPerSecond, now),
    samples: (trace_id) => isSampled(sampling, trace_id),
    needsRecount: (buffer, { count }, now) => needsRecount(buffer, count, queueLimit, now),
    updateCount,
    admit: (buffer, recorded, at, now) => {
      if (!isSampled(sampling, recorded.trace_id)) return
      const waiting = toPendingTrace(recorded, at, buffer.content)
      const entry = { buffer, recorded: waiting.recorded, at, characters: waiting.characters }
      if (!admits(entry, now)) return drop(buffer, recorded.count, now)
      buffer.inMemory += recorded.count
      held += recorded.count
      inboxBudget.reserve(buffer.org_id, entry.characters)
      inbox.push(entry)
    },
    unencodedCount: () => inbox.length - encodedCount,
    nextUnencoded: () => inbox[encodedCount],
    orgsWithContent: (count) => {
      const found = new Set<OrgId>()
      for (const { buffer } of inbox.slice(encodedCount, encodedCount + count))
        if (buffer.content) found.add(buffer.org_id)
      return found
    },
    encode: (count, content, now, hasTime) => {
      const faults: Array<unknown> = []
      let encoded = 0
      for (const { at, characters, buffer, recorded } of inbox.slice(encodedCount, encodedCount + count)) {
        inboxBudget.release(buffer.org_id, characters)
        let texts: ReadonlyArray<string> = []
        try {
          texts = recorded.make(at, content).map((span) => encodeSpan(span, sampling.traceState))
        } catch (fault) {
          faults.push(fault)
          drop(buffer, recorded.count, now)
        }
        buffer.inMemory += texts.length - recorded.count
        held += texts.length - recorded.count
        for (const text of texts) append(buffer, text, now)
        encoded++
        encodedCount++
        if (!hasTime()) break
      }
      // Once half of the list is done: so an entry is moved once on average, and what it holds is soon let go.
      if (2 * encodedCount >= inbox.length) {
        inbox = inbox.slice(encodedCount)
        encodedCount = 0
      }
      return { encoded, faults }
    },
    drop,
    closeDue: (now, everything, hasTime) => {
      let begun = false
      for (const buffer of dirty) {
        if (!everything && now - buffer.since < flushMillis) continue
        if (begun && !hasTime()) return false
        begun = true
        dirty.delete(buffer)
        close(buffer, now)
        if (buffer.dropped > 0) {
          drops.add(buffer)
          writeAt = Math.min(writeAt, now)
        }
      }
      return true
    },
    takeReady: () => {
      let size = 0
      const over = ready.findIndex((batch, index) => {
        size += batch.request.length
        return index === GROUP_BATCHES || (index > 0 && size > GROUP_BYTES)
      })
      const batches = over < 0 ? ready : ready.slice(0, over)
      ready = over < 0 ? [] : ready.slice(over)
      for (const { request } of batches) readyBytes -= request.length
      writeAt = ready.length === 0 ? Infinity : 0
      const told = new Map<OrgBuffer, number>()
      for (const buffer of drops) {
        told.set(buffer, buffer.dropped)
        buffer.dropped = 0
      }
      drops.clear()
      return { batches, drops: told }
    },
    release: (batch) => {
      batch.buffer.inMemory -= batch.spans
      held -= batch.spans
      bytes -= batch.request.length
    },
    restoreDrops: (told, now) => {
      for (const [buffer, spans] of told) drop(buffer, spans, now)
    },
    hasReady: () => ready.length > 0 || drops.size > 0,
    writeAt: () => writeAt,
    dueIn: (now) => {
      let due = writeAt
      for (const buffer of dirty) due = Math.min(due, buffer.since + flushMillis)
      return due === Infinity ? null : Math.max(0, due - now)
    },
    spanCount: () => held
  }
}
