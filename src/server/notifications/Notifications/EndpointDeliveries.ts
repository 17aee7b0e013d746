import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { ReplayWindow } from "../../../api/NotificationEndpoints.ts"
import { NotFound } from "../../../api/Problems.ts"
import { testEventBody } from "../../../domain/approvals/ApprovalEvent.ts"
import { DeliveryDetail, DeliveryRecord } from "../../../domain/delivery/DeliveryState.ts"
import { type DeliveryId, type EndpointId, EventId, type OrgId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { formatTimestamp } from "../../../domain/Time.ts"
import type { Audit } from "../../identity/Audit.ts"
import { atomic } from "../../store/Database/transaction.ts"
import type { Delivery, DeliveryLogEntry, DeliveryLogDetail } from "../../delivery/Delivery.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { endpointExists, lockEndpointForShare, insertEvents } from "./rows.ts"
import { WEBHOOK } from "./WebhookChannel.ts"

/** There is no such endpoint in the organization, or there is none any more. */
export const endpointNotFound = new NotFound({ detail: "There is no such endpoint in this organization" })

/** Of what the log has, a notification's record shows this. Its own channel wrote it: what does not fit is a defect. */
const records = (list: ReadonlyArray<DeliveryLogEntry>) => Effect.orDie(decodeRecords(list))
const decodeRecords = Schema.decodeUnknownEffect(Schema.toType(Schema.Array(DeliveryRecord)))
const detail = (one: DeliveryLogDetail) => Effect.orDie(decodeDetail(one))
const decodeDetail = Schema.decodeUnknownEffect(Schema.toType(DeliveryDetail))

/** What an endpoint's owner does with its deliveries. Each asks first whether the endpoint is the organization's. */
export const makeEndpointDeliveries = (
  sql: SqlClient.SqlClient,
  delivery: Delivery["Service"],
  clock: StoreClock["Service"],
  audit: Audit["Service"]
) => {
  const atomically = atomic(sql)

  const known = Effect.fnUntraced(function* (org_id: OrgId, id: EndpointId) {
    if (!(yield* Effect.orDie(endpointExists(sql, org_id, id)))) return yield* endpointNotFound
  })

  /** Queues something for an endpoint that is there until the commit: one removed meanwhile must leave nothing in the queue. */
  const queueing = <A, E>(org_id: OrgId, id: EndpointId, work: Effect.Effect<A, E>) =>
    atomically(
      Effect.gen(function* () {
        if (!(yield* lockEndpointForShare(sql, org_id, id))) return yield* endpointNotFound
        return yield* work
      })
    )

  return {
    list: (org_id: OrgId, id: EndpointId) =>
      Effect.andThen(known(org_id, id), Effect.flatMap(delivery.list(org_id, id), records)),

    get: (org_id: OrgId, id: EndpointId, delivery_id: DeliveryId) =>
      Effect.andThen(known(org_id, id), Effect.flatMap(delivery.get(org_id, id, delivery_id), detail)),

    replay: (principal: Principal, id: EndpointId, delivery_id: DeliveryId) =>
      queueing(
        principal.org_id,
        id,
        Effect.andThen(
          delivery.replay(principal.org_id, id, delivery_id),
          audit.record(principal, "delivery.replayed", delivery_id, { endpoint_id: id })
        )
      ),

    replayWindow: (principal: Principal, id: EndpointId, { since, until }: ReplayWindow) =>
      queueing(
        principal.org_id,
        id,
        Effect.tap(
          delivery.replayWindow(principal.org_id, id, { since, until: until ?? null }),
          ({ queued, skipped }) =>
            audit.record(principal, "endpoint.replayed", id, {
              since: formatTimestamp(since),
              until: until === undefined || until === null ? null : formatTimestamp(until),
              queued,
              skipped
            })
        )
      ),

    test: (principal: Principal, id: EndpointId) =>
      queueing(
        principal.org_id,
        id,
        Effect.gen(function* () {
          const { org_id } = principal
          const now = yield* clock.now
          const event_id = yield* EventId.generate
          yield* insertEvents(sql, [
            {
              org_id,
              event_id,
              type: "test",
              approval_id: null,
              body: Buffer.from(testEventBody({ id: event_id, org_id, occurred_at: now })),
              occurred_at: now
            }
          ])
          const [made] = yield* delivery.enqueue([
            { org_id, channel: WEBHOOK, destination_id: id, event_id, label: "test" }
          ])
          if (made === undefined)
            return yield* Effect.die(new Error("What was enqueued must have a delivery"))
          const record = yield* Effect.orDie(Effect.flatMap(delivery.get(org_id, id, made), detail))
          yield* audit.record(principal, "endpoint.tested", id, { delivery_id: record.id })
          return { queued: record.status !== "failed", id: record.id }
        })
      )
  }
}
