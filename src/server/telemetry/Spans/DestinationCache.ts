import type { OrgId } from "../../../domain/Ids.ts"
import { TraceMode } from "../../../domain/telemetry/TelemetryDestination.ts"
import { KeyedBudget } from "../../admission/KeyedBudget.ts"
import type { SpanBuffer } from "./SpanBuffer.ts"
import {
  type OrgBuffer,
  type RecordedTrace,
  type SpanDestination,
  TRACE_CHARACTERS,
  type PendingTrace,
  toPendingTrace
} from "./OrgBuffer.ts"

/**
 * TTL of "no destination", in milliseconds. A destination created on another replica is noticed after this; one created
 * on this replica is noticed immediately.
 */
const ABSENT_TTL_MILLIS = 5_000

/** Cached organizations; beyond this, entries without pending spans are evicted. */
const MAX_ENTRIES = 20_000

/** Traces waiting for a lookup, in characters: 2,048 traces without content. */
const WAITING_CHARACTERS = 2_048 * TRACE_CHARACTERS

/**
 * Spans and scores of traces for which there was no memory, by how the destination traces runs: that decides which traces are sampled, and
 * is known only after the lookup.
 */
type Missed = Readonly<Record<TraceMode, { spans: number; scores: number }>>

const noneMissed = (): Missed => ({ own: { spans: 0, scores: 0 }, join: { spans: 0, scores: 0 } })

type State =
  | { readonly _tag: "Absent"; readonly until: number }
  | {
      readonly _tag: "Present"
      readonly buffer: OrgBuffer
      readonly waiting: Array<PendingTrace>
      readonly missed: Missed
    }
  | { readonly _tag: "Unknown"; readonly waiting: Array<PendingTrace>; readonly missed: Missed }

/**
 * Caches each organization's telemetry destination, so that recording spans needs no statement. Traces of an
 * organization that is not cached wait here until its destination has been looked up.
 */
export const makeDestinationCache = (
  { updateCount, open, samples }: Pick<SpanBuffer, "open" | "updateCount" | "samples">,
  lookUpSoon: () => void
) => {
  const states = new Map<OrgId, State>()
  const lookups = new Set<OrgId>()
  const budget = new KeyedBudget<OrgId>({ total: WAITING_CHARACTERS, perKey: WAITING_CHARACTERS / 2 })

  const evictIdle = (): void => {
    if (states.size < MAX_ENTRIES) return
    for (const [org_id, state] of states) {
      const busy =
        state._tag === "Unknown" ||
        (state._tag === "Present" &&
          (state.buffer.inMemory > 0 || state.buffer.dropped > 0 || state.waiting.length > 0))
      if (!busy) states.delete(org_id)
      if (states.size < MAX_ENTRIES) return
    }
  }

  const awaitLookup = (
    org_id: OrgId,
    state: State & { readonly _tag: "Unknown" | "Present" },
    recorded: RecordedTrace,
    at: number
  ): void => {
    const modes = TraceMode.literals.filter(
      (mode) => (state._tag === "Unknown" || state.buffer.format.trace === mode) && samples(recorded, mode)
    )
    if (modes.length === 0) return
    const one = toPendingTrace(recorded, at, state._tag === "Unknown" || state.buffer.content)
    if (budget.fits(org_id, one.characters)) {
      state.waiting.push(one)
      budget.take(org_id, one.characters)
    } else {
      for (const mode of modes) {
        state.missed[mode].spans += recorded.count
        if (recorded.score !== undefined) state.missed[mode].scores++
      }
    }
  }

  /** Releases the budget of traces that no longer wait. */
  const releaseBudget = (org_id: OrgId, list: ReadonlyArray<PendingTrace>): void => {
    for (const { characters } of list) budget.giveBack(org_id, characters)
  }

  const requestLookup = (org_id: OrgId): void => {
    lookups.add(org_id)
    lookUpSoon()
  }

  const addUnknown = (org_id: OrgId): State & { readonly _tag: "Unknown" } => {
    evictIdle()
    const state = { _tag: "Unknown" as const, waiting: [], missed: noneMissed() }
    states.set(org_id, state)
    requestLookup(org_id)
    return state
  }

  return {
    /**
     * Returns the organization's buffer if its destination is cached. Otherwise the trace waits for a lookup, or is
     * ignored if the organization has no destination.
     */
    bufferFor: (org_id: OrgId, now: number, recorded: RecordedTrace, at: number): OrgBuffer | undefined => {
      const found = states.get(org_id)
      if (found?._tag === "Present") return found.buffer
      if (found?._tag === "Absent" && now < found.until) return undefined
      awaitLookup(org_id, found?._tag === "Unknown" ? found : addUnknown(org_id), recorded, at)
      return undefined
    },
    /** Makes the trace wait until the pending spans in the database have been counted again. */
    recount: (buffer: OrgBuffer, recorded: RecordedTrace, at: number): void => {
      const state = states.get(buffer.org_id)
      if (state?._tag !== "Present" || state.buffer !== buffer) return
      awaitLookup(buffer.org_id, state, recorded, at)
      requestLookup(buffer.org_id)
    },
    /** Takes up to `limit` organizations to look up. */
    takeLookups: (limit: number): ReadonlyArray<OrgId> => {
      const list: Array<OrgId> = []
      for (const org_id of lookups) {
        if (list.length === limit) break
        lookups.delete(org_id)
        list.push(org_id)
      }
      return list
    },
    /** Requests failed lookups again. No other code retries them. */
    retryLookups: (list: ReadonlyArray<OrgId>): void => {
      for (const org_id of list) if (states.has(org_id)) requestLookup(org_id)
    },
    hasLookups: () => lookups.size > 0,
    /** Stores the result of a lookup. The traces that waited for it are passed to `take`. */
    resolve: (
      org_id: OrgId,
      destination: SpanDestination | undefined,
      now: number,
      take: (buffer: OrgBuffer, waited: ReadonlyArray<PendingTrace>, missed: number) => void
    ): void => {
      const state = states.get(org_id)
      // The entry was invalidated meanwhile and another lookup requested, whose result will be used instead.
      if (state === undefined || state._tag === "Absent" || lookups.has(org_id)) return
      releaseBudget(org_id, state.waiting)
      if (destination === undefined) {
        states.set(org_id, { _tag: "Absent", until: now + ABSENT_TTL_MILLIS })
        return
      }
      const same = state._tag === "Present" && state.buffer.destination_id === destination.destination_id
      const buffer = same ? state.buffer : open(org_id, destination, now)
      if (same) updateCount(buffer, destination.waiting_spans, now, true)
      states.set(org_id, { _tag: "Present", buffer, waiting: [], missed: noneMissed() })
      // Traces recorded for one destination are not sent to its successor.
      if (same || state._tag === "Unknown") {
        const { scores, spans } = state.missed[buffer.format.trace]
        take(buffer, state.waiting, spans + (buffer.separate === null ? 0 : scores))
      }
    },
    /** Invalidates an organization. Traces that wait for its first lookup wait for the next one. */
    invalidate: (org_id: OrgId): void => {
      const state = states.get(org_id)
      if (state?._tag === "Unknown") return requestLookup(org_id)
      if (state?._tag === "Present") releaseBudget(org_id, state.waiting)
      states.delete(org_id)
    },
    peek: (org_id: OrgId): OrgBuffer | undefined => {
      const state = states.get(org_id)
      return state?._tag === "Present" ? state.buffer : undefined
    }
  }
}
