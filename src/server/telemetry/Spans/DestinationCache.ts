import type { OrgId, TelemetryDestinationId } from "../../../domain/Ids.ts"
import type { SpanBuffer } from "./SpanBuffer.ts"
import {
  type OrgBuffer,
  type RecordedTrace,
  TRACE_CHARACTERS,
  type PendingTrace,
  toPendingTrace
} from "./OrgBuffer.ts"
import { makeFairBudget } from "./FairBudget.ts"

/**
 * How long an organization is known to have no destination. One that is made by another replica is noticed after this; one that is
 * made here, at once.
 */
const ABSENT_TTL_MILLIS = 5_000

/** Organizations that something is known of; past it those with nothing on its way are forgotten. */
const MAX_ENTRIES = 20_000

/** Traces that wait until it is known whether anybody wants them, in characters: 2,048 without content. */
const WAITING_CHARACTERS = 2_048 * TRACE_CHARACTERS

type State =
  | { readonly _tag: "None"; readonly until: number }
  | {
      readonly _tag: "Some"
      readonly buffer: OrgBuffer
      readonly waiting: Array<PendingTrace>
      missed: number
    }
  | { readonly _tag: "Unknown"; readonly waiting: Array<PendingTrace>; missed: number }

/** A destination as the store has it. */
export interface Destination {
  readonly destination_id: TelemetryDestinationId
  readonly content: boolean
  readonly waiting_spans: number
}

/** What is known of the organizations that record spans: an buffer, nothing, or that there is none. */
export const makeDestinationCache = (
  { updateCount, open, samples }: Pick<SpanBuffer, "open" | "updateCount" | "samples">,
  lookUpSoon: () => void
) => {
  const states = new Map<OrgId, State>()
  const lookups = new Set<OrgId>()
  const budget = makeFairBudget(WAITING_CHARACTERS)

  const evictIdle = (): void => {
    if (states.size < MAX_ENTRIES) return
    for (const [org_id, state] of states) {
      const busy =
        state._tag === "Unknown" ||
        (state._tag === "Some" &&
          (state.buffer.inMemory > 0 || state.buffer.dropped > 0 || state.waiting.length > 0))
      if (!busy) states.delete(org_id)
      if (states.size < MAX_ENTRIES) return
    }
  }

  const hold = (
    org_id: OrgId,
    state: State & { readonly _tag: "Unknown" | "Some" },
    recorded: RecordedTrace,
    at: number
  ): void => {
    if (!samples(recorded.trace_id)) return
    const one = toPendingTrace(recorded, at, state._tag === "Unknown" || state.buffer.content)
    if (budget.fits(org_id, one.characters)) {
      state.waiting.push(one)
      budget.reserve(org_id, one.characters)
    } else state.missed += recorded.count
  }

  /** They wait no more. */
  const releaseBudget = (org_id: OrgId, list: ReadonlyArray<PendingTrace>): void => {
    for (const { characters } of list) budget.release(org_id, characters)
  }

  const requestLookup = (org_id: OrgId): void => {
    lookups.add(org_id)
    lookUpSoon()
  }

  const addUnknown = (org_id: OrgId): State & { readonly _tag: "Unknown" } => {
    evictIdle()
    const state = { _tag: "Unknown" as const, waiting: [], missed: 0 }
    states.set(org_id, state)
    requestLookup(org_id)
    return state
  }

  return {
    /** The buffer of an organization, if it is known to have one; else what is recorded waits, or is nobody's. */
    bufferFor: (org_id: OrgId, now: number, recorded: RecordedTrace, at: number): OrgBuffer | undefined => {
      const found = states.get(org_id)
      if (found?._tag === "Some") return found.buffer
      if (found?._tag === "None" && now < found.until) return undefined
      hold(org_id, found?._tag === "Unknown" ? found : addUnknown(org_id), recorded, at)
      return undefined
    },
    /** What is recorded waits until the store has said how many spans wait there. */
    recount: (buffer: OrgBuffer, recorded: RecordedTrace, at: number): void => {
      const state = states.get(buffer.org_id)
      if (state?._tag !== "Some" || state.buffer !== buffer) return
      hold(buffer.org_id, state, recorded, at)
      requestLookup(buffer.org_id)
    },
    /** Organizations to look up, `limit` at most. */
    takeLookups: (limit: number): ReadonlyArray<OrgId> => {
      const list: Array<OrgId> = []
      for (const org_id of lookups) {
        if (list.length === limit) break
        lookups.delete(org_id)
        list.push(org_id)
      }
      return list
    },
    /** They could not be looked up: nobody else would ask for them. */
    retryLookups: (list: ReadonlyArray<OrgId>): void => {
      for (const org_id of list) if (states.has(org_id)) requestLookup(org_id)
    },
    hasLookups: () => lookups.size > 0,
    /** What the store has of an organization; what waited for the answer is taken by `take`. */
    resolve: (
      org_id: OrgId,
      destination: Destination | undefined,
      now: number,
      take: (buffer: OrgBuffer, waited: ReadonlyArray<PendingTrace>, missed: number) => void
    ): void => {
      const state = states.get(org_id)
      // Something changed meanwhile, and it is asked for again: the next answer counts.
      if (state === undefined || state._tag === "None" || lookups.has(org_id)) return
      releaseBudget(org_id, state.waiting)
      if (destination === undefined) {
        states.set(org_id, { _tag: "None", until: now + ABSENT_TTL_MILLIS })
        return
      }
      const same = state._tag === "Some" && state.buffer.destination_id === destination.destination_id
      const buffer = same ? state.buffer : open(org_id, destination, now)
      if (same) updateCount(buffer, destination.waiting_spans, now, true)
      states.set(org_id, { _tag: "Some", buffer, waiting: [], missed: 0 })
      // What was recorded for one destination is not for the next.
      if (same || state._tag === "Unknown") take(buffer, state.waiting, state.missed)
    },
    /** Something changed: it is asked for anew. What waits for an answer goes on waiting. */
    invalidate: (org_id: OrgId): void => {
      const state = states.get(org_id)
      if (state?._tag === "Unknown") return requestLookup(org_id)
      if (state?._tag === "Some") releaseBudget(org_id, state.waiting)
      states.delete(org_id)
    },
    peek: (org_id: OrgId): OrgBuffer | undefined => {
      const state = states.get(org_id)
      return state?._tag === "Some" ? state.buffer : undefined
    }
  }
}
