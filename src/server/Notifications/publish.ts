import { Array as Arr, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { eventBody } from "../../domain/ApprovalEvent.ts"
import { EventId, type OrgId } from "../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import type { Moment } from "../Approvals/record.ts"
import type { Delivery } from "../Delivery.ts"
import { insertEvents, subscribersOf } from "./rows.ts"
import { WEBHOOK } from "./WebhookChannel.ts"

/**
 * Within the caller's transaction: writes the events that somebody subscribed to, and a delivery for each endpoint that did and is
 * active. Whether there are any.
 */
export const publishToEndpoints = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  delivery: Delivery["Service"],
  org_id: OrgId,
  moments: Arr.NonEmptyReadonlyArray<Moment>,
  now: Timestamp
) {
  const subscribers = yield* subscribersOf(sql, org_id, Arr.dedupe(moments.map(({ event }) => event)))
  if (subscribers.length === 0) return false
  const events = yield* Effect.forEach(moments, ({ approval, event: type }) =>
    Effect.map(EventId.generate, (id) => ({
      org_id,
      event_id: id,
      type,
      approval_id: approval.approval_id,
      body: Buffer.from(eventBody({ id, type, org_id, occurred_at: now, approval })),
      occurred_at: toDate(now)
    }))
  )
  const wanted = events.filter(({ type }) => subscribers.some(({ events }) => events.includes(type)))
  if (!Arr.isArrayNonEmpty(wanted)) return false
  yield* insertEvents(sql, wanted)
  yield* delivery.enqueue(
    wanted.flatMap(({ approval_id, event_id, type }) =>
      subscribers
        .filter(({ events }) => events.includes(type))
        .map(({ endpoint_id }) => ({
          org_id,
          channel: WEBHOOK,
          destination_id: endpoint_id,
          event_id,
          label: `${type} ${approval_id}`
        }))
    )
  )
  return true
})
