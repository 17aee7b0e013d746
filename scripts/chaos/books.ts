import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { persistently } from "./persistently.ts"
import type { Receiver } from "./receiver.ts"

/** A delivery that waits. */
interface Pending {
  readonly event_id: string
  readonly attempts: number
}

/** What the store says of an event that was committed, and of its only delivery; `status` is null where it has none. */
export interface Entry {
  readonly event_id: string
  readonly status: string | null
  readonly attempts: number
  readonly logged: number
  readonly numbers: number
}

/** What it all came to. */
export interface Totals {
  /** Events that were committed. */
  readonly events: number
  /** Those of them that never arrived, or are not recorded as delivered. */
  readonly lost: number
  /** Arrivals that are not recorded as an attempt: the attempt was made again. */
  readonly duplicates: number
  /** Requests that were under way, or ended and not yet written down, at the moment of a fault. */
  readonly inFlight: number
  /** Duplicates of an event beyond those of its own requests that were in flight: what another's faults allow says nothing of it. */
  readonly unexplained: number
  /** Attempts that are recorded twice, miscounted, or were never seen by the receiver. */
  readonly stale: number
}

/** How long before a fault a request may have arrived whose result was not written down by then. */
const RECENT_MILLIS = 20_000

/** What the store says, what arrived of each event, and how many of its requests were in flight at faults, held against each other. */
export const tally = (
  list: ReadonlyArray<Entry>,
  arrived: ReadonlyMap<string, { readonly count: number }>,
  allowed: ReadonlyMap<string, number>
): Totals => {
  const totals = { events: list.length, lost: 0, duplicates: 0, inFlight: 0, unexplained: 0, stale: 0 }
  for (const { attempts, event_id, logged, numbers, status } of list) {
    const count = arrived.get(event_id)?.count ?? 0
    const duplicates = Math.max(0, count - attempts)
    if (status !== "delivered" || count === 0) totals.lost++
    if (logged !== attempts || numbers !== attempts || attempts > count) totals.stale++
    totals.duplicates += duplicates
    totals.unexplained += Math.max(0, duplicates - (allowed.get(event_id) ?? 0))
  }
  for (const count of allowed.values()) totals.inFlight += count
  return totals
}

/**
 * Compares what the receiver saw with what the store says. Each arrival is an attempt that was recorded, or a duplicate; each duplicate
 * must be one of those that were in flight at a fault.
 */
export const makeBooks = (sql: SqlClient.SqlClient, receiver: Receiver) => {
  const allowed = new Map<string, number>()

  const pending = persistently(
    sql<Pending>`SELECT event_id, attempts FROM deliveries WHERE status = 'pending'`
  )

  /** From the events on: one that was committed without its delivery is lost. */
  const entries = persistently(
    sql<Entry>`
      SELECT
        e.event_id, d.status, coalesce(d.attempts, 0) AS attempts,
        count(a.attempt)::int AS logged, count(DISTINCT a.attempt)::int AS numbers
      FROM approval_events e
      LEFT JOIN deliveries d ON d.org_id = e.org_id AND d.event_id = e.event_id
      LEFT JOIN delivery_attempts a
        ON a.org_id = d.org_id
        AND a.destination_id = d.destination_id
        AND a.delivery_id = d.delivery_id
      GROUP BY e.org_id, e.event_id, d.org_id, d.destination_id, d.delivery_id
    `
  )

  return {
    /** Notes what is in flight, of one carrier by its address, or of all. */
    fault: Effect.fnUntraced(function* (address?: string) {
      const since = performance.now() - RECENT_MILLIS
      for (const { attempts, event_id } of yield* pending) {
        const seen = receiver.arrived.get(event_id)
        if (seen === undefined || seen.at < since || (address !== undefined && seen.by !== address)) continue
        const before = allowed.get(event_id) ?? 0
        if (seen.count - attempts > before) allowed.set(event_id, before + 1)
      }
    }),
    /** Whether nothing waits any more. */
    settled: Effect.map(pending, (list) => list.length === 0),
    totals: Effect.map(entries, (list) => tally(list, receiver.arrived, allowed))
  }
}
