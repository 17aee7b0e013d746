import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { persistently } from "./persistently.ts"
import type { Arrival, Arrived, Receiver } from "./receiver.ts"

/** A pending delivery. */
interface Pending {
  readonly event_id: string
  readonly attempts: number
}

/** A committed event with its only delivery as the database has it; `status` is null if the delivery is missing. */
export interface Entry {
  readonly event_id: string
  readonly status: string | null
  readonly attempts: number
  /** Attempts in the log, their distinct numbers, and how many of them got a response. */
  readonly logged: number
  readonly numbers: number
  readonly answered: number
}

/** The result of comparing the receiver's log with the database. */
export interface Totals {
  /** Committed events. */
  readonly events: number
  /** Events that never arrived, or are not recorded as delivered. */
  readonly lost: number
  /** Arrivals that are not recorded as an attempt, because the attempt was repeated. */
  readonly duplicates: number
  /** Requests in flight, or ended and not yet recorded, at the moment of a fault. */
  readonly inFlight: number
  /** Duplicates of an event beyond its own requests in flight at faults. */
  readonly unexplained: number
  /** The events with unexplained duplicates. */
  readonly unexplainedEvents: ReadonlyArray<string>
  /** Attempts that are recorded twice, miscounted, or have a response of which the receiver does not know. */
  readonly stale: number
}

/** Reads every committed event with its delivery. Starts from the events: one committed without its delivery is lost. */
export const readEntries = (sql: SqlClient.SqlClient) =>
  persistently(
    sql<Entry>`
      SELECT
        e.event_id, d.status, coalesce(d.attempts, 0) AS attempts,
        count(a.attempt)::int AS logged, count(DISTINCT a.attempt)::int AS numbers, count(a.status)::int AS answered
      FROM approval_events e
      LEFT JOIN deliveries d ON d.org_id = e.org_id AND d.event_id = e.event_id
      LEFT JOIN delivery_attempts a
        ON a.org_id = d.org_id
        AND a.destination_id = d.destination_id
        AND a.delivery_id = d.delivery_id
      GROUP BY e.org_id, e.event_id, d.org_id, d.destination_id, d.delivery_id
    `
  )

/** How long before a fault a request may have arrived whose result was not recorded by then. */
const RECENT_MILLIS = 20_000

/** Compares the database, the arrivals of each event, and the number of its requests in flight at faults. */
export const tally = (
  list: ReadonlyArray<Entry>,
  arrived: ReadonlyMap<string, { readonly count: number }>,
  allowed: ReadonlyMap<string, number>
): Totals => {
  const totals = { events: list.length, lost: 0, duplicates: 0, inFlight: 0, unexplained: 0, stale: 0 }
  const unexplainedEvents: Array<string> = []
  for (const { answered, attempts, event_id, logged, numbers, status } of list) {
    const count = arrived.get(event_id)?.count ?? 0
    const duplicates = Math.max(0, count - attempts)
    if (status !== "delivered" || count === 0) totals.lost++
    // An attempt without a response may have timed out before the receiver read it.
    if (logged !== attempts || numbers !== attempts || answered > count) totals.stale++
    totals.duplicates += duplicates
    const unexplained = Math.max(0, duplicates - (allowed.get(event_id) ?? 0))
    totals.unexplained += unexplained
    if (unexplained > 0) unexplainedEvents.push(event_id)
  }
  for (const count of allowed.values()) totals.inFlight += count
  return { ...totals, unexplainedEvents }
}

/** A fault as the reconciliation has noted it. */
interface NotedFault {
  readonly what: string
  /** In milliseconds on the monotonic clock. */
  readonly at: number
}

/** A replica that was frozen, with the times at which it froze and resumed, in milliseconds on the monotonic clock. */
export interface Freeze {
  readonly address: string
  readonly frozenAt: number
  /** The same moment in Unix milliseconds. */
  readonly frozenAtUnix: number
  readonly resumedAt: number
}

/**
 * The event whose request the replica was about to write when it froze: signed before, and written first thing after it
 * resumed. A process looks at the clock right before it writes a request, but it can be frozen between the two. It has one
 * thread, so there is at most one such request in a freeze.
 */
export const requestAtFreeze = (
  arrived: ReadonlyMap<string, { readonly requests: ReadonlyArray<Omit<Arrival, "ended" | "status">> }>,
  { address, frozenAt, frozenAtUnix, resumedAt }: Freeze
): string | undefined => {
  const candidates = [...arrived].flatMap(([event_id, { requests }]) =>
    requests
      .filter(({ at, by }) => by === address && at > frozenAt && at >= resumedAt)
      .filter(({ signedAt }) => signedAt * 1000 <= frozenAtUnix)
      .map(({ at }) => ({ at, event_id }))
  )
  return candidates.toSorted((a, b) => a.at - b.at)[0]?.event_id
}

/** The requests of an event and the faults, one line each, in the order of their times in milliseconds. */
const timeline = (
  { requests }: Arrived,
  faults: ReadonlyArray<NotedFault>,
  began: number
): ReadonlyArray<string> =>
  [
    ...faults.map(({ at, what }) => ({ at, text: what })),
    ...requests.flatMap(({ at, by, ended, status }) => [
      { at, text: `request of ${by} arrives, to be answered ${status}` },
      { at: ended ?? Infinity, text: `request of ${by} ends` }
    ])
  ]
    .toSorted((a, b) => a.at - b.at)
    .map(({ at, text }) => `  ${(at - began).toFixed(0).padStart(8)} ${text}`)

/**
 * Compares the receiver's log with the database. Each arrival is a recorded attempt or a duplicate; each duplicate must
 * have been in flight at a fault.
 */
export const makeReconciliation = (sql: SqlClient.SqlClient, receiver: Receiver) => {
  const allowed = new Map<string, number>()
  const faults: Array<NotedFault> = []
  const freezes: Array<Freeze> = []
  const began = performance.now()

  const pending = persistently(
    sql<Pending>`SELECT event_id, attempts FROM deliveries WHERE status = 'pending'`
  )

  return {
    /** Notes an event of the run for the timelines. */
    note: (what: string) => void faults.push({ what, at: performance.now() }),
    /** Notes the requests in flight, of one replica by its address, or of all. */
    noteFault: Effect.fnUntraced(function* (what: string, address?: string) {
      faults.push({ what: `${what} ${address ?? ""}`, at: performance.now() })
      const since = performance.now() - RECENT_MILLIS
      for (const { attempts, event_id } of yield* pending) {
        const seen = receiver.arrived.get(event_id)
        if (seen === undefined || seen.last.at < since || (address !== undefined && seen.last.by !== address))
          continue
        const before = allowed.get(event_id) ?? 0
        if (seen.count - attempts > before) allowed.set(event_id, before + 1)
      }
    }),
    /** Notes a freeze that ends now. */
    noteResume: ({ address, frozenAt, frozenAtUnix }: Omit<Freeze, "resumedAt">): void => {
      const resumedAt = performance.now()
      faults.push({ what: `resume ${address}`, at: resumedAt })
      freezes.push({ address, frozenAt, frozenAtUnix, resumedAt })
    },
    /** Whether nothing is pending. */
    settled: Effect.map(pending, (list) => list.length === 0),
    totals: Effect.map(readEntries(sql), (list) => {
      const withFreezes = new Map(allowed)
      for (const freeze of freezes) {
        const event_id = requestAtFreeze(receiver.arrived, freeze)
        if (event_id !== undefined) withFreezes.set(event_id, (allowed.get(event_id) ?? 0) + 1)
      }
      return tally(list, receiver.arrived, withFreezes)
    }),
    /** What happened to an event, for a reader who looks for the reason of a duplicate. */
    timelineOf: (event_id: string): ReadonlyArray<string> => {
      const arrived = receiver.arrived.get(event_id)
      return arrived === undefined ? [] : [event_id, ...timeline(arrived, faults, began)]
    }
  }
}
