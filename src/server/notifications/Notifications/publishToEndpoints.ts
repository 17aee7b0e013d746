import { Array as Arr, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { approvalEventBody, type ApprovalTransitionEvent } from "../../../domain/approvals/ApprovalEvent.ts"
import { EventId, type OrgId } from "../../../domain/Ids.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { Delivery } from "../../delivery/Delivery.ts"
import { insertEvents, findSubscribers } from "./rows.ts"
import type { RecentEvents } from "./RecentEvents.ts"
import { WEBHOOK } from "./WebhookChannel.ts"

/**
 * Queues webhooks within the caller's transaction: inserts the events, and a delivery of each for every active endpoint that subscribes to
 * its type.
 */
export const publishToEndpoints = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  delivery: Delivery["Service"],
  recent: RecentEvents["Service"],
  org_id: OrgId,
  transitions: Arr.NonEmptyReadonlyArray<ApprovalTransitionEvent>,
  now: Timestamp,
  onlyVerified: boolean
) {
  const subscribers = yield* findSubscribers(
    sql,
    org_id,
    Arr.dedupe(transitions.map(({ event }) => event)),
    onlyVerified
  )
  const ids = yield* EventId.generateMany(transitions.length)
  const events = Arr.zipWith(transitions, ids, ({ approval, event }, id) => ({
    org_id,
    event_id: id,
    type: event,
    approval_id: approval.approval_id,
    body: Buffer.from(approvalEventBody({ id, type: event, org_id, occurred_at: now, approval })),
    occurred_at: now
  }))
  if (!Arr.isArrayNonEmpty(events)) return
  yield* insertEvents(sql, events)
  for (const event of events) {
    recent.keep(
      event,
      subscribers.filter(({ events }) => events.includes(event.type))
    )
  }
  yield* delivery.enqueue(
    events.flatMap(({ approval_id, event_id, type }) =>
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
})
