import { Effect, Schedule } from "effect"
import type { SqlClient } from "effect/sql"
import type { Acknowledged } from "./load.ts"
import { persistently } from "../persistently.ts"
import { readEntries } from "../reconciliation.ts"

/** What the comparison of the database with what clients and the receiver saw has found. */
export interface Findings {
  /** Acknowledged writes, and events that were committed. */
  readonly acknowledged: number
  readonly events: number
  /** Arrivals beyond the recorded attempts: requests in flight at a fault, sent again. */
  readonly duplicates: number
  /** A sentence for each guarantee that was broken. */
  readonly broken: ReadonlyArray<string>
}

/** The longest wait for deliveries that are pending: every lease, and the first retries. */
const SETTLE = Schedule.max([Schedule.spaced("200 millis"), Schedule.recurs(450)])

/** The longest list of examples in a sentence. */
const EXAMPLES = 3

const described = (what: string, list: ReadonlyArray<string>): ReadonlyArray<string> =>
  list.length === 0 ? [] : [`${list.length} ${what}, such as ${list.slice(0, EXAMPLES).join(", ")}`]

/**
 * Compares the database with the acknowledged writes and with the arrivals at the receiver, once nothing is pending. An
 * event may arrive once more for each of `faults`.
 */
export const verify = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  acknowledged: Acknowledged,
  arrived: ReadonlyMap<string, number>,
  faults: number
) {
  const ids = (statement: ReturnType<typeof sql<{ readonly id: string }>>) =>
    Effect.map(persistently(statement), (rows) => rows.map(({ id }) => id))

  const pending = ids(sql`SELECT delivery_id AS id FROM deliveries WHERE status = 'pending'`)
  const unsettled = yield* Effect.repeat(pending, { until: (list) => list.length === 0, schedule: SETTLE })
  const sessions = new Set(yield* ids(sql`SELECT session_id AS id FROM agent_sessions`))
  const steps = new Set(yield* ids(sql`SELECT session_id || ' ' || step_id AS id FROM governed_steps`))
  const approved = new Set(yield* ids(sql`SELECT approval_id AS id FROM approvals WHERE status = 'approved'`))
  const events = yield* readEntries(sql)
  const committed = new Set(events.map(({ event_id }) => event_id))
  const missing = (set: ReadonlySet<string>, from: ReadonlySet<string>) =>
    [...set].filter((id) => !from.has(id))
  const eventIds = (holds: (event: (typeof events)[number], count: number) => boolean) =>
    events.filter((event) => holds(event, arrived.get(event.event_id) ?? 0)).map(({ event_id }) => event_id)

  const broken = [
    ...described("deliveries are still pending", unsettled),
    ...described("acknowledged sessions were lost", missing(acknowledged.sessions, sessions)),
    ...described("acknowledged steps were lost", missing(acknowledged.steps, steps)),
    ...described("acknowledged decisions were lost", missing(acknowledged.decisions, approved)),
    ...described(
      "webhooks were sent for events that the database does not have",
      missing(new Set(arrived.keys()), committed)
    ),
    ...described(
      "events were not delivered",
      eventIds((event, count) => event.status !== "delivered" || count === 0)
    ),
    ...described(
      "deliveries have inconsistent attempts",
      eventIds(
        ({ answered, attempts, logged, numbers }, count) =>
          logged !== attempts || numbers !== attempts || count < answered
      )
    ),
    ...described(
      "events arrived more often than the faults explain",
      eventIds(({ attempts }, count) => count > attempts + faults)
    ),
    ...described(
      "sessions have gaps in their event numbers",
      yield* ids(sql`
        SELECT s.session_id AS id
        FROM agent_sessions s
        LEFT JOIN session_events e ON e.org_id = s.org_id AND e.session_id = s.session_id
        GROUP BY s.org_id, s.session_id, s.last_event
        HAVING count(e.number) <> s.last_event OR coalesce(max(e.number), 0) <> s.last_event
      `)
    ),
    ...described(
      "approvals have not exactly one event of each transition",
      yield* ids(sql`
        SELECT p.approval_id AS id
        FROM approvals p
        LEFT JOIN approval_events e ON e.org_id = p.org_id AND e.approval_id = p.approval_id
        GROUP BY p.org_id, p.approval_id, p.status
        HAVING count(*) FILTER (WHERE e.type = 'approval.requested') <> 1
          OR count(*) FILTER (WHERE e.type = 'approval.approved') <> (p.status = 'approved')::int
      `)
    ),
    ...described(
      "approvals expired before their deadline",
      yield* ids(sql`SELECT approval_id AS id FROM approvals WHERE status NOT IN ('pending', 'approved')`)
    )
  ]
  const findings: Findings = {
    acknowledged: acknowledged.sessions.size + acknowledged.steps.size + acknowledged.decisions.size,
    events: events.length,
    duplicates: events.reduce(
      (sum, { attempts, event_id }) => sum + Math.max(0, (arrived.get(event_id) ?? 0) - attempts),
      0
    ),
    broken
  }
  return findings
})
