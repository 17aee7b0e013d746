import type { OrgId, TraceId } from "../../../domain/Ids.ts"
import { encodeSpan } from "../../../domain/telemetry/OtlpJson.ts"
import { isSampled, type Sampling } from "../../../domain/telemetry/SpanSampling.ts"
import { BatchWriter } from "./BatchWriter.ts"
import type { Content } from "./Content.ts"
import {
  type Batch,
  believe,
  type Destination,
  type Entry,
  isUnsure,
  openOutbox,
  type Outbox,
  type Recorded,
  TRACE_CHARACTERS,
  waitingOf
} from "./OrgBuffer.ts"
import { makeSharedRoom } from "./FairByteBudget.ts"
import { makeTraces } from "./Traces.ts"

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
const TOGETHER_MILLIS = 100

/** The limits of an organization. */
export interface Limits {
  readonly sampling: Sampling
  /** Spans that may wait, in the store and here. */
  readonly queueLimit: number
  readonly spansPerSecond: number
  readonly flushMillis: number
}

/** The spans of this process that are not in the store yet. Plain and synchronous. */
export interface SpanBuffer {
  /** An organization's outbox, empty. */
  readonly open: (org_id: OrgId, destination: Destination, now: number) => Outbox
  /** Whether a trace is sampled: of one that is not, nothing is kept or counted. */
  readonly samples: (trace_id: TraceId) => boolean
  /** Whether a trace finds no room for all that is known, but for what may have been accepted meanwhile: worth a look into the store. */
  readonly unsure: (outbox: Outbox, recorded: Recorded, now: number) => boolean
  /** Takes a trace's spans in, or does not; `at` in milliseconds since the epoch, `now` on the monotonic clock. */
  readonly take: (outbox: Outbox, recorded: Recorded, at: number, now: number) => void
  /** The store has said how many spans of an organization wait there; `asked`: because there was no room. */
  readonly counted: (outbox: Outbox, waiting: number, now: number, asked: boolean) => void
  /** Traces that were taken in and are not encoded yet. */
  readonly unencoded: () => number
  /** The first of them. */
  readonly first: () => Entry | undefined
  /** Organizations whose content goes out, among the first so many of these traces. */
  readonly withContent: (count: number) => ReadonlySet<OrgId>
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
  readonly drop: (outbox: Outbox, spans: number, now: number) => void
  /**
   * Closes the batches that have waited long enough, all of them where `everything`, as long as there is time; one at least. Whether that
   * was the last one.
   */
  readonly seal: (now: number, everything: boolean, hasTime: () => boolean) => boolean
  /** Takes batches that are closed, as many as one transaction may write, and the outboxes that have drops to tell. */
  readonly takeReady: () => {
    readonly batches: ReadonlyArray<Batch>
    readonly drops: ReadonlyMap<Outbox, number>
  }
  /** A batch is in the store, or was dropped there: it is no longer held here. */
  readonly stored: (batch: Batch) => void
  /** Drops could not be told: they are told another time. */
  readonly untold: (drops: ReadonlyMap<Outbox, number>, now: number) => void
  /** Whether there is something that a transaction could write now. */
  readonly ready: () => boolean
  /** When what is ready is to be written, on the monotonic clock; Infinity: nothing is ready. */
  readonly writeAt: () => number
  /** How long until there is something to close or to write, in milliseconds; null: nothing waits. */
  readonly dueIn: (now: number) => number | null
  /** Spans that are here in all. */
  readonly held: () => number
}

/**
 * A trace is judged when it is recorded, by arithmetic alone; what is kept is encoded a moment later, and gathered by organization. Every
 * span that is sampled and goes no further is counted.
 */
export const makeBuffer = ({ flushMillis, queueLimit, sampling, spansPerSecond }: Limits): SpanBuffer => {
  const traces = makeTraces()
  /** Outboxes with spans, or with drops to tell. */
  const dirty = new Set<Outbox>()
  const drops = new Set<Outbox>()
  const room = makeSharedRoom(INBOX_CHARACTERS)
  let inbox: Array<Entry> = []
  /** Entries at its beginning that are encoded already. */
  let taken = 0
  let ready: Array<Batch> = []
  let readyBytes = 0
  let writeAt = Infinity
  let bytes = 0
  let held = 0

  const touch = (outbox: Outbox, now: number): void => {
    if (dirty.has(outbox)) return
    outbox.since = now
    dirty.add(outbox)
  }

  const drop = (outbox: Outbox, spans: number, now: number): void => {
    outbox.dropped += spans
    touch(outbox, now)
  }

  const close = (outbox: Outbox, at: number): void => {
    if (outbox.writer === undefined) return
    const { held: before, spans } = outbox.writer
    const request = outbox.writer.finish()
    bytes += request.length - before
    ready.push({ outbox, spans, request })
    readyBytes += request.length
    const full = ready.length >= GROUP_BATCHES || readyBytes >= GROUP_BYTES
    writeAt = full ? 0 : Math.min(writeAt, at)
    outbox.writer = undefined
  }

  /** Whether the limits let a trace in that is sampled. */
  const admits = ({ characters, outbox, recorded }: Entry, now: number): boolean => {
    const { count, trace_id, whole = false } = recorded
    const known = traces.known(trace_id)
    if (known === "refused") return false
    const roomy =
      outbox.held + outbox.waiting + count <= queueLimit &&
      bytes < MAX_BUFFERED_BYTES &&
      room.has(outbox.org_id, characters)
    if (known === "admitted") {
      if (roomy) outbox.budget.charge(count, now)
      return roomy
    }
    const admitted = roomy && outbox.budget.admit(count, now)
    traces.remember(trace_id, admitted ? "admitted" : "refused", whole)
    return admitted
  }

  const append = (outbox: Outbox, text: string, now: number): void => {
    touch(outbox, now)
    if (outbox.writer !== undefined) {
      const before = outbox.writer.held
      const fits = outbox.writer.append(text)
      bytes += outbox.writer.held - before
      if (!fits || outbox.writer.spans === MAX_BATCH_SPANS) close(outbox, now + TOGETHER_MILLIS)
      if (fits) return
    }
    const writer = new BatchWriter(outbox.frame, MAX_BATCH_BYTES)
    if (writer.append(text)) {
      bytes += writer.held
      outbox.writer = writer
      return
    }
    // Too large for any request: dropped alone.
    outbox.held--
    held--
    drop(outbox, 1, now)
  }

  return {
    open: (org_id, destination, now) => openOutbox(org_id, destination, spansPerSecond, now),
    samples: (trace_id) => isSampled(sampling, trace_id),
    unsure: (outbox, { count }, now) => isUnsure(outbox, count, queueLimit, now),
    counted: believe,
    take: (outbox, recorded, at, now) => {
      if (!isSampled(sampling, recorded.trace_id)) return
      const waiting = waitingOf(recorded, at, outbox.content)
      const entry = { outbox, recorded: waiting.recorded, at, characters: waiting.characters }
      if (!admits(entry, now)) return drop(outbox, recorded.count, now)
      outbox.held += recorded.count
      held += recorded.count
      room.take(outbox.org_id, entry.characters)
      inbox.push(entry)
    },
    unencoded: () => inbox.length - taken,
    first: () => inbox[taken],
    withContent: (count) => {
      const found = new Set<OrgId>()
      for (const { outbox } of inbox.slice(taken, taken + count)) if (outbox.content) found.add(outbox.org_id)
      return found
    },
    encode: (count, content, now, hasTime) => {
      const faults: Array<unknown> = []
      let encoded = 0
      for (const { at, characters, outbox, recorded } of inbox.slice(taken, taken + count)) {
        room.giveBack(outbox.org_id, characters)
        let texts: ReadonlyArray<string> = []
        try {
          texts = recorded.make(at, content).map((span) => encodeSpan(span, sampling.traceState))
        } catch (fault) {
          faults.push(fault)
          drop(outbox, recorded.count, now)
        }
        outbox.held += texts.length - recorded.count
        held += texts.length - recorded.count
        for (const text of texts) append(outbox, text, now)
        encoded++
        taken++
        if (!hasTime()) break
      }
      // Once half of the list is done: so an entry is moved once on average, and what it holds is soon let go.
      if (2 * taken >= inbox.length) {
        inbox = inbox.slice(taken)
        taken = 0
      }
      return { encoded, faults }
    },
    drop,
    seal: (now, everything, hasTime) => {
      let begun = false
      for (const outbox of dirty) {
        if (!everything && now - outbox.since < flushMillis) continue
        if (begun && !hasTime()) return false
        begun = true
        dirty.delete(outbox)
        close(outbox, now)
        if (outbox.dropped > 0) {
          drops.add(outbox)
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
      const told = new Map<Outbox, number>()
      for (const outbox of drops) {
        told.set(outbox, outbox.dropped)
        outbox.dropped = 0
      }
      drops.clear()
      return { batches, drops: told }
    },
    stored: (batch) => {
      batch.outbox.held -= batch.spans
      held -= batch.spans
      bytes -= batch.request.length
    },
    untold: (told, now) => {
      for (const [outbox, spans] of told) drop(outbox, spans, now)
    },
    ready: () => ready.length > 0 || drops.size > 0,
    writeAt: () => writeAt,
    dueIn: (now) => {
      let due = writeAt
      for (const outbox of dirty) due = Math.min(due, outbox.since + flushMillis)
      return due === Infinity ? null : Math.max(0, due - now)
    },
    held: () => held
  }
}
