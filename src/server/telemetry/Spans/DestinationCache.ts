import type { OrgId, TelemetryDestinationId } from "../../../domain/Ids.ts"
import type { SpanBuffer } from "./Buffer.ts"
import { type Outbox, type Recorded, TRACE_CHARACTERS, type Waiting, waitingOf } from "./OrgBuffer.ts"
import { makeSharedRoom } from "./FairByteBudget.ts"

/**
 * How long an organization is known to have no destination. One that is made by another replica is noticed after this; one that is
 * made here, at once.
 */
const NONE_MILLIS = 5_000

/** Organizations that something is known of; past it those with nothing on its way are forgotten. */
const MAX_KNOWN = 20_000

/** Traces that wait until it is known whether anybody wants them, in characters: 2,048 without content. */
const WAITING_CHARACTERS = 2_048 * TRACE_CHARACTERS

type State =
  | { readonly _tag: "None"; readonly until: number }
  | { readonly _tag: "Some"; readonly outbox: Outbox; readonly waiting: Array<Waiting>; missed: number }
  | { readonly _tag: "Unknown"; readonly waiting: Array<Waiting>; missed: number }

/** A destination as the store has it. */
export interface Destination {
  readonly destination_id: TelemetryDestinationId
  readonly content: boolean
  readonly waiting_spans: number
}

/** What is known of the organizations that record spans: an outbox, nothing, or that there is none. */
export const makeKnown = (
  { counted, open, samples }: Pick<SpanBuffer, "open" | "counted" | "samples">,
  askSoon: () => void
) => {
  const states = new Map<OrgId, State>()
  const asking = new Set<OrgId>()
  const room = makeSharedRoom(WAITING_CHARACTERS)

  const makeRoom = (): void => {
    if (states.size < MAX_KNOWN) return
    for (const [org_id, state] of states) {
      const busy =
        state._tag === "Unknown" ||
        (state._tag === "Some" &&
          (state.outbox.held > 0 || state.outbox.dropped > 0 || state.waiting.length > 0))
      if (!busy) states.delete(org_id)
      if (states.size < MAX_KNOWN) return
    }
  }

  const wait = (
    org_id: OrgId,
    state: State & { readonly _tag: "Unknown" | "Some" },
    recorded: Recorded,
    at: number
  ): void => {
    if (!samples(recorded.trace_id)) return
    const one = waitingOf(recorded, at, state._tag === "Unknown" || state.outbox.content)
    if (room.has(org_id, one.characters)) {
      state.waiting.push(one)
      room.take(org_id, one.characters)
    } else state.missed += recorded.count
  }

  /** They wait no more. */
  const leave = (org_id: OrgId, list: ReadonlyArray<Waiting>): void => {
    for (const { characters } of list) room.giveBack(org_id, characters)
  }

  const askFor = (org_id: OrgId): void => {
    asking.add(org_id)
    askSoon()
  }

  const ask = (org_id: OrgId): State & { readonly _tag: "Unknown" } => {
    makeRoom()
    const state = { _tag: "Unknown" as const, waiting: [], missed: 0 }
    states.set(org_id, state)
    askFor(org_id)
    return state
  }

  return {
    /** The outbox of an organization, if it is known to have one; else what is recorded waits, or is nobody's. */
    outboxFor: (org_id: OrgId, now: number, recorded: Recorded, at: number): Outbox | undefined => {
      const found = states.get(org_id)
      if (found?._tag === "Some") return found.outbox
      if (found?._tag === "None" && now < found.until) return undefined
      wait(org_id, found?._tag === "Unknown" ? found : ask(org_id), recorded, at)
      return undefined
    },
    /** What is recorded waits until the store has said how many spans wait there. */
    check: (outbox: Outbox, recorded: Recorded, at: number): void => {
      const state = states.get(outbox.org_id)
      if (state?._tag !== "Some" || state.outbox !== outbox) return
      wait(outbox.org_id, state, recorded, at)
      askFor(outbox.org_id)
    },
    /** Organizations to look up, `limit` at most. */
    toAsk: (limit: number): ReadonlyArray<OrgId> => {
      const list: Array<OrgId> = []
      for (const org_id of asking) {
        if (list.length === limit) break
        asking.delete(org_id)
        list.push(org_id)
      }
      return list
    },
    /** They could not be looked up: nobody else would ask for them. */
    askAgain: (list: ReadonlyArray<OrgId>): void => {
      for (const org_id of list) if (states.has(org_id)) askFor(org_id)
    },
    hasToAsk: () => asking.size > 0,
    /** What the store has of an organization; what waited for the answer is taken by `take`. */
    answered: (
      org_id: OrgId,
      destination: Destination | undefined,
      now: number,
      take: (outbox: Outbox, waited: ReadonlyArray<Waiting>, missed: number) => void
    ): void => {
      const state = states.get(org_id)
      // Something changed meanwhile, and it is asked for again: the next answer counts.
      if (state === undefined || state._tag === "None" || asking.has(org_id)) return
      leave(org_id, state.waiting)
      if (destination === undefined) {
        states.set(org_id, { _tag: "None", until: now + NONE_MILLIS })
        return
      }
      const same = state._tag === "Some" && state.outbox.destination_id === destination.destination_id
      const outbox = same ? state.outbox : open(org_id, destination, now)
      if (same) counted(outbox, destination.waiting_spans, now, true)
      states.set(org_id, { _tag: "Some", outbox, waiting: [], missed: 0 })
      // What was recorded for one destination is not for the next.
      if (same || state._tag === "Unknown") take(outbox, state.waiting, state.missed)
    },
    /** Something changed: it is asked for anew. What waits for an answer goes on waiting. */
    forget: (org_id: OrgId): void => {
      const state = states.get(org_id)
      if (state?._tag === "Unknown") return askFor(org_id)
      if (state?._tag === "Some") leave(org_id, state.waiting)
      states.delete(org_id)
    },
    outboxOf: (org_id: OrgId): Outbox | undefined => {
      const state = states.get(org_id)
      return state?._tag === "Some" ? state.outbox : undefined
    }
  }
}
