import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { EventCursor, type ApprovalEventPage } from "../../api/Events.ts"
import { DEFAULT_LIMIT } from "../../api/Pagination.ts"
import { CursorExpired } from "../../api/Problems.ts"
import {
  ApprovalEvent,
  approvalEventTypes,
  type ApprovalEventType
} from "../../domain/approvals/ApprovalEvent.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { TimestampFromDate } from "../../domain/Time.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { lockOnNode } from "../store/Cluster.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"

/** Events that one request numbers, and searches for its types. */
const MAX_READ_EVENTS = 1_000

/** The longest time from an event to its commit, in milliseconds. */
const MAX_COMMIT_MILLIS = 600_000

/** The query of the list. */
export interface EventQuery {
  readonly cursor?: EventCursor
  readonly limit?: number
  readonly type?: ApprovalEventType
}

/**
 * The list of an organization's events, for receivers that pull. An event gets its position when the list is first read
 * after its commit, not when it is written: to be numbered in the order of their commits, writers would have to wait for each
 * other. One request numbers at a time, so a cursor never passes an event that commits later.
 */
export class EventLog extends Context.Service<
  EventLog,
  {
    /** Returns the page after a cursor, oldest first. */
    readonly list: (
      query: EventQuery
    ) => Effect.Effect<ApprovalEventPage, CursorExpired, Authorized<"approvals.read">>
  }
>()("countersign/server/notifications/EventLog") {
  static readonly layer = Layer.effect(
    EventLog,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      // Written out: for a parameter, the plan of a prepared statement expects a tenth of all events.
      const readLimit = sql.literal(String(MAX_READ_EVENTS))
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const { keptSince } = yield* Delivery

      /** Numbers the oldest events without a position. Returns whether some may be left. In the order of the index, which null is part of. */
      const numberEvents = Effect.fnUntraced(function* (org_id: OrgId) {
        const unnumbered = yield* sql`
          SELECT 1 AS found
          FROM approval_events
          WHERE org_id = ${org_id}
            AND position IS NULL
          ORDER BY position, occurred_at, event_id
          LIMIT 1
        `
        if (unnumbered.length === 0) return false
        return yield* atomically(
          Effect.gen(function* () {
            yield* sql`
              INSERT INTO approval_event_heads (org_id, position)
              VALUES (${org_id}, 0)
              ON CONFLICT (org_id) DO NOTHING
            `
            yield* lockOnNode(
              sql,
              org_id,
              sql`SELECT position FROM approval_event_heads WHERE org_id = ${org_id} FOR UPDATE`
            )
            // A statement of its own: it sees the positions that another request gave while this one waited for the lock.
            const [numbered] = yield* sql<{ readonly count: number }>`
              WITH unnumbered AS MATERIALIZED (
                SELECT event_id, row_number() OVER (ORDER BY occurred_at, event_id) AS place
                FROM (
                  SELECT event_id, occurred_at
                  FROM approval_events
                  WHERE org_id = ${org_id}
                    AND position IS NULL
                  ORDER BY position, occurred_at, event_id
                  LIMIT ${readLimit}
                ) AS oldest
              ), numbered AS (
                UPDATE approval_events AS event
                SET position = head.position + unnumbered.place
                FROM unnumbered, approval_event_heads AS head
                WHERE event.org_id = ${org_id}
                  AND event.event_id = unnumbered.event_id
                  AND head.org_id = ${org_id}
                RETURNING event.position
              ), moved AS (
                UPDATE approval_event_heads
                SET position = greatest(position, (SELECT max(position) FROM numbered))
                WHERE org_id = ${org_id}
              )
              SELECT count(*)::int AS count
              FROM numbered
            `
            return numbered?.count === MAX_READ_EVENTS
          })
        )
      })

      /** Searches the next events by their types. Returns the last event that was read too, without its body. */
      const readEvents = (
        org_id: OrgId,
        after: number,
        types: ReadonlyArray<ApprovalEventType>,
        limit: number
      ) =>
        eventRows.all(sql`
          WITH read AS MATERIALIZED (
            SELECT event_id, position, type, occurred_at
            FROM approval_events
            WHERE org_id = ${org_id}
              AND position > ${after}::bigint
            ORDER BY position
            LIMIT ${readLimit}
          ), found AS (
            SELECT *
            FROM read
            WHERE type = ANY(${textArray(types)})
            ORDER BY position
            LIMIT ${limit}
          )
          SELECT found.position::float8 AS position, found.occurred_at, convert_from(event.body, 'UTF8') AS body
          FROM found
            JOIN approval_events AS event ON event.org_id = ${org_id} AND event.event_id = found.event_id
          UNION ALL
          (
            SELECT position::float8, occurred_at, NULL
            FROM read
            ORDER BY position DESC
            LIMIT 1
          )
          ORDER BY position, body NULLS LAST
        `)

      return EventLog.of({
        list: Effect.fn("EventLog.list")(function* ({ cursor, limit = DEFAULT_LIMIT, type }) {
          const { org_id } = yield* Authorized("approvals.read")
          const start = cursor === undefined ? undefined : readCursor(cursor)
          if (start !== undefined && start.readUntil < DateTime.toEpochMillis(yield* keptSince)) {
            return yield* new CursorExpired({
              detail:
                "Events after this cursor may have been deleted. Read the pending approvals from the API, then list events without a cursor."
            })
          }
          const now = DateTime.toEpochMillis(yield* clock.now)
          const areLeft = yield* Effect.orDie(numberEvents(org_id))
          const types = type === undefined ? approvalEventTypes : [type]
          const from = start?.position ?? 0
          const rows = yield* Effect.orDie(readEvents(org_id, from, types, limit))
          const found = rows.filter(isFound)
          const lastRead = rows.at(-1)
          const last = found.length === limit ? found.at(-1) : lastRead
          const until = lastRead?.position ?? from
          const has_more = areLeft || (last?.position ?? from) < until || until - from >= MAX_READ_EVENTS
          return {
            events: yield* Effect.orDie(Effect.forEach(found, ({ body }) => decodeBody(body))),
            next_cursor: EventCursor.make(
              has_more && last !== undefined
                ? `${last.position}.${DateTime.toEpochMillis(last.occurred_at)}`
                : `${until}.${Math.max(0, now - MAX_COMMIT_MILLIS)}`
            ),
            has_more
          }
        })
      })
    })
  )
}

const eventRows = rowsOf(
  Schema.Struct({
    position: Schema.Number,
    occurred_at: TimestampFromDate,
    body: Schema.NullOr(Schema.String)
  })
)
type EventRow = Effect.Success<ReturnType<typeof eventRows.all>>[number]

const isFound = (row: EventRow): row is EventRow & { readonly body: string } => row.body !== null

const decodeBody = Schema.decodeEffect(Schema.fromJsonString(ApprovalEvent), { disableChecks: true })

/** Takes a cursor apart: no event with a later position occurred before `readUntil`, in Unix milliseconds. */
const readCursor = (cursor: EventCursor) => {
  const [position = 0, readUntil = 0] = cursor.split(".").map(Number)
  return { position, readUntil }
}
