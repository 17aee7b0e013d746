import { Effect, FiberSet, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { ReplayOutcome, ReplayResult } from "../../../api/console/Deliveries.ts"
import type { ReplayWindow } from "../../../api/NotificationEndpoints.ts"
import { notFound } from "../../../api/notFound.ts"
import { testEventBody } from "../../../domain/approvals/ApprovalEvent.ts"
import { DeliveryDetail, DeliveryRecord } from "../../../domain/delivery/DeliveryState.ts"
import { type DeliveryId, type EndpointId, EventId, type OrgId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { formatTimestamp } from "../../../domain/Time.ts"
import type { Audit } from "../../identity/Audit.ts"
import { atomic, isInTransaction } from "../../store/transaction.ts"
import type { Delivery, DeliveryLogEntry, DeliveryLogDetail } from "../../delivery/Delivery.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { RecentEvents } from "./RecentEvents.ts"
import { endpointExists, lockEndpointForShare, insertEvents } from "./rows.ts"
import { makeTestEventQueue } from "./TestEventQueue.ts"
import { WEBHOOK } from "./WebhookChannel.ts"

/** Narrows entries of the delivery log to the API's records. The webhook channel wrote them, so a mismatch is a defect. */
const toRecords = (entries: ReadonlyArray<DeliveryLogEntry>) => Effect.orDie(decodeRecords(entries))
const decodeRecords = Schema.decodeUnknownEffect(Schema.toType(Schema.Array(DeliveryRecord)))
const toDetail = (entry: DeliveryLogDetail) => Effect.orDie(decodeDetail(entry))
const decodeDetail = Schema.decodeUnknownEffect(Schema.toType(DeliveryDetail))

/** Operations on the deliveries of one endpoint. Each first checks that the organization has the endpoint. */
export const makeEndpointDeliveries = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  delivery: Delivery["Service"],
  recent: RecentEvents["Service"],
  clock: StoreClock["Service"],
  audit: Audit["Service"],
  onlyVerified: boolean,
  clustered: boolean
) {
  const atomically = atomic(sql)
  const queueTestEvent = yield* makeTestEventQueue(sql, delivery, recent, audit, onlyVerified)
  const fork = yield* FiberSet.makeRuntime()

  const requireEndpoint = Effect.fnUntraced(function* (org_id: OrgId, id: EndpointId) {
    if (!(yield* Effect.orDie(endpointExists(sql, org_id, id)))) return yield* notFound("endpoint")
  })

  /** Runs `work` in a transaction that keeps the endpoint from being removed: a removed endpoint must have no queued deliveries. */
  const withEndpoint = <A, E>(
    org_id: OrgId,
    id: EndpointId,
    work: (endpoint: { readonly active: boolean; readonly version: string }) => Effect.Effect<A, E>
  ) =>
    atomically(
      Effect.gen(function* () {
        const endpoint = yield* lockEndpointForShare(sql, org_id, id, onlyVerified)
        if (endpoint === undefined) return yield* notFound("endpoint")
        return yield* work(endpoint)
      })
    )

  const isCoolingDown = (org_id: OrgId, id: EndpointId) =>
    Effect.map(delivery.health(org_id, [id]), (health) => (health.get(id)?.cooldown_until ?? null) !== null)

  /** Works in every case; `queueTestEvent` is faster. */
  const testInTransaction = (principal: Principal, id: EndpointId, mayCoolElsewhere: boolean) =>
    withEndpoint(
      principal.org_id,
      id,
      Effect.fnUntraced(function* ({ active, version }) {
        const { org_id } = principal
        const now = yield* clock.now
        const event_id = yield* EventId.generate
        const type = "test"
        const body = Buffer.from(testEventBody({ id: event_id, org_id, occurred_at: now }))
        yield* insertEvents(sql, [{ org_id, event_id, type, approval_id: null, body, occurred_at: now }])
        recent.keep({ event_id, type, body }, active ? [{ endpoint_id: id, version }] : [])
        const [delivery_id] = yield* delivery.enqueue([
          { org_id, channel: WEBHOOK, destination_id: id, event_id, label: "test" }
        ])
        if (delivery_id === undefined)
          return yield* Effect.die(new Error("An enqueued event must have a delivery"))
        const record = yield* Effect.orDie(Effect.flatMap(delivery.get(org_id, id, delivery_id), toDetail))
        if (mayCoolElsewhere && (yield* isCoolingDown(org_id, id))) yield* delivery.endCooldown(org_id, id)
        yield* audit.record(principal, "endpoint.tested", id, { delivery_id: record.id })
        return { queued: record.status !== "failed", id: record.id }
      })
    )

  const endCooldown = (org_id: OrgId, id: EndpointId) =>
    Effect.catchCause(delivery.endCooldown(org_id, id), (cause) =>
      Effect.logWarning("Could not end the cooldown of a tested endpoint; the test waits for its end", cause)
    )

  return {
    list: (org_id: OrgId, id: EndpointId) =>
      Effect.andThen(requireEndpoint(org_id, id), Effect.flatMap(delivery.list(org_id, id), toRecords)),

    get: (org_id: OrgId, id: EndpointId, delivery_id: DeliveryId) =>
      Effect.andThen(
        requireEndpoint(org_id, id),
        Effect.flatMap(delivery.get(org_id, id, delivery_id), toDetail)
      ),

    replay: (principal: Principal, id: EndpointId, delivery_id: DeliveryId) =>
      withEndpoint(principal.org_id, id, () =>
        Effect.andThen(
          delivery.replay(principal.org_id, id, delivery_id),
          audit.record(principal, "delivery.replayed", delivery_id, { endpoint_id: id })
        )
      ),

    /** Replays deliveries of one endpoint, with one audit entry. Each has its outcome, also if there is no such endpoint. */
    replayMany: (
      principal: Principal,
      id: EndpointId,
      delivery_ids: ReadonlyArray<DeliveryId>
    ): Effect.Effect<ReadonlyArray<ReplayResult>> => {
      const toResults = (outcomeOf: (delivery_id: DeliveryId) => ReplayOutcome) =>
        delivery_ids.map((delivery_id): ReplayResult => ({
          endpoint_id: id,
          delivery_id,
          outcome: outcomeOf(delivery_id)
        }))
      return withEndpoint(
        principal.org_id,
        id,
        Effect.fnUntraced(function* ({ active }) {
          // It would fail again.
          if (!active) return toResults(() => "endpoint_disabled")
          const outcomes = yield* delivery.replayMany(principal.org_id, id, delivery_ids)
          const results = toResults((delivery_id) => outcomes.get(delivery_id) ?? "not_found")
          const queued = results.filter(({ outcome }) => outcome === "queued").length
          if (queued > 0) {
            yield* audit.record(principal, "endpoint.replayed", id, {
              selected: results.length,
              queued,
              skipped: results.length - queued
            })
          }
          return results
        })
      ).pipe(
        Effect.catchTag("NOT_FOUND", () => Effect.succeed(toResults(() => "not_found"))),
        Effect.orDie
      )
    },

    replayWindow: (principal: Principal, id: EndpointId, { since, until }: ReplayWindow) =>
      withEndpoint(principal.org_id, id, () =>
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

    /** Makes the waiting deliveries due now. */
    retryNow: (principal: Principal, id: EndpointId) =>
      withEndpoint(principal.org_id, id, () =>
        Effect.andThen(
          delivery.retryNow(principal.org_id, id),
          audit.record(principal, "endpoint.retried", id)
        )
      ),

    /** A cooldown ends that began before the test. One that the test causes stays. */
    test: Effect.fnUntraced(function* (principal: Principal, id: EndpointId) {
      const mayCoolElsewhere = !delivery.endCooldownHere(principal.org_id, id)
      if (!clustered && !(yield* isInTransaction)) {
        const written = yield* Effect.orDie(queueTestEvent(principal, id, yield* clock.now))
        if (written !== null) {
          const { delivery_id, isCoolingDown, queued } = written
          // The response does not wait for it.
          if (mayCoolElsewhere && isCoolingDown) fork(endCooldown(principal.org_id, id))
          return { queued, id: delivery_id }
        }
      }
      return yield* testInTransaction(principal, id, mayCoolElsewhere)
    })
  }
})
