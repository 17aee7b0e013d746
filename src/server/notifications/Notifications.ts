import { Array as Arr, Context, Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { DeliveryOfEndpoint, ReplayResult } from "../../api/console/Deliveries.ts"
import type {
  NewNotificationEndpoint,
  NotificationEndpointChange,
  ReplayWindow,
  TestDelivery
} from "../../api/NotificationEndpoints.ts"
import type {
  EndpointDisabled,
  InvalidUrl,
  LimitReached,
  NotFound,
  NotReplayable,
  QueueFull,
  RateLimited,
  VerificationFailed
} from "../../api/Problems.ts"
import { approvalEventBody, type ApprovalTransitionEvent } from "../../domain/approvals/ApprovalEvent.ts"
import { isApprovalEmailType } from "../../domain/approvals/ApprovalEmail.ts"
import type { DeliveryDetail, DeliveryRecord } from "../../domain/delivery/DeliveryState.ts"
import { type DeliveryId, type EndpointId, EventId, type OrgId } from "../../domain/Ids.ts"
import type { NotificationEndpoint } from "../../domain/delivery/NotificationEndpoint.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { Audit } from "../identity/Audit.ts"
import { isCluster } from "../store/Cluster.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { Egress } from "../egress/Egress.ts"
import { Email } from "./Email.ts"
import { makeEndpointCache } from "./Notifications/EndpointCache.ts"
import { makeEndpointDeliveries } from "./Notifications/EndpointDeliveries.ts"
import { type CreatedEndpoint, makeEndpointChanges } from "./Notifications/endpointChanges.ts"
import { listEndpoints } from "./Notifications/rows.ts"
import { publishToEndpoints } from "./Notifications/publishToEndpoints.ts"
import { RecentEvents } from "./Notifications/RecentEvents.ts"
import { WEBHOOK } from "./Notifications/WebhookChannel.ts"
import { endpointVersions, type PreparedEvent } from "./PreparedEvent.ts"
import { makeRateLimit } from "../admission/makeRateLimit.ts"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { Organizations } from "../identity/Organizations.ts"
import { VerificationPolicy } from "../identity/VerificationPolicy.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { StoreClock } from "../store/StoreClock.ts"

export { WEBHOOK } from "./Notifications/WebhookChannel.ts"

/**
 * Notifications of approval events: manages webhook endpoints and their deliveries, and queues each event (`publish`) for the subscribed
 * endpoints and, by `Email`, for the mailboxes of reviewers and admins.
 */
export class Notifications extends Context.Service<
  Notifications,
  {
    /** The organization's endpoints, newest first, and whether email to its reviewers is configured. */
    readonly list: Effect.Effect<
      { readonly endpoints: ReadonlyArray<NotificationEndpoint>; readonly email_notifier: boolean },
      never,
      Authorized<"org_config.read">
    >
    /** The URL is resolved and checked against the egress rules now, and again at every attempt. */
    readonly create: (
      input: NewNotificationEndpoint
    ) => Effect.Effect<CreatedEndpoint, InvalidUrl | LimitReached, Authorized<"org_config.write">>
    /** Changes event types and `active`; URL and secret never change. Enabling also re-enables an endpoint that answered 410. */
    readonly update: (
      id: EndpointId,
      change: NotificationEndpointChange
    ) => Effect.Effect<NotificationEndpoint, NotFound, Authorized<"org_config.write">>
    /** Replaces the signing secret. The previous one signs beside it for 24 hours. */
    readonly rotateSecret: (
      id: EndpointId
    ) => Effect.Effect<Redacted.Redacted<string>, NotFound, Authorized<"org_config.write">>
    /** Sends a test event to one endpoint, whatever it subscribes to. */
    readonly test: (
      id: EndpointId
    ) => Effect.Effect<TestDelivery, NotFound | RateLimited, Authorized<"org_config.write">>
    /** Sends the endpoint a challenge once, and waits for its answer. Sends nothing else and is not retried. */
    readonly verify: (
      id: EndpointId
    ) => Effect.Effect<
      NotificationEndpoint,
      NotFound | EndpointDisabled | RateLimited | VerificationFailed,
      Authorized<"org_config.write">
    >
    /** The latest 50 deliveries, newest first. */
    readonly deliveries: (
      id: EndpointId
    ) => Effect.Effect<ReadonlyArray<DeliveryRecord>, NotFound, Authorized<"org_config.read">>
    /** Returns one delivery of an endpoint with its latest attempts. */
    readonly delivery: (
      id: EndpointId,
      delivery_id: DeliveryId
    ) => Effect.Effect<DeliveryDetail, NotFound, Authorized<"org_config.read">>
    /**
     * Queues a failed delivery again, with the same event. It is sent after the endpoint's cooldown. Of concurrent replays one succeeds.
     */
    readonly replay: (
      id: EndpointId,
      delivery_id: DeliveryId
    ) => Effect.Effect<void, NotFound | NotReplayable | QueueFull, Authorized<"org_config.write">>
    /** Queues the failed deliveries of a time window again, oldest first, up to the queue limit. */
    readonly replayWindow: (
      id: EndpointId,
      window: ReplayWindow
    ) => Effect.Effect<
      { readonly queued: number; readonly skipped: number },
      NotFound,
      Authorized<"org_config.write">
    >
    /** Ends the cooldown of an endpoint and makes its waiting deliveries due now. Limited like test events. */
    readonly retryNow: (
      id: EndpointId
    ) => Effect.Effect<void, NotFound | RateLimited, Authorized<"org_config.write">>
    /** Removes an endpoint and cancels its queue. A request in flight may still arrive. */
    readonly remove: (id: EndpointId) => Effect.Effect<void, NotFound, Authorized<"org_config.write">>
    /**
     * Replays failed deliveries, independently of each other, with one audit entry for each endpoint. Returns the result of each.
     */
    readonly replayMany: (
      list: ReadonlyArray<DeliveryOfEndpoint>
    ) => Effect.Effect<ReadonlyArray<ReplayResult>, never, Authorized<"org_config.write">>
    /**
     * Stores and queues events within the caller's transaction: the bytes that are signed, a delivery for each active endpoint that
     * subscribes to the event, and an email for each recipient.
     */
    readonly publish: (
      org_id: OrgId,
      events: Arr.NonEmptyReadonlyArray<ApprovalTransitionEvent>,
      now: Timestamp
    ) => Effect.Effect<void>
    /**
     * Prepares an event for a statement that writes it beside other rows, or returns `undefined` if it may also be
     * mailed: then `publish` is needed.
     */
    readonly prepare: (
      org_id: OrgId,
      event: ApprovalTransitionEvent,
      now: Timestamp
    ) => Effect.Effect<PreparedEvent | undefined>
    /** Invalidates the cached endpoints that `prepare` uses, after such a statement refused them. */
    readonly invalidateEndpoints: (org_id: OrgId) => Effect.Effect<void>
  }
>()("countersign/server/notifications/Notifications") {
  static readonly layer = Layer.effect(
    Notifications,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      const box = yield* SecretBox
      const egress = yield* Egress
      const delivery = yield* Delivery
      const recent = yield* RecentEvents
      const email = yield* Email
      const organizations = yield* Organizations
      const audit = yield* Audit
      const onlyVerified = (yield* VerificationPolicy).endpoints
      const endpointCache = makeEndpointCache(sql, onlyVerified)
      const invalidateEndpoints = (org_id: OrgId) => Effect.sync(() => endpointCache.invalidate(org_id))
      const deliveries = yield* makeEndpointDeliveries(
        sql,
        delivery,
        recent,
        clock,
        audit,
        onlyVerified,
        yield* isCluster(sql)
      )

      const { challengesPerMinute, testsPerMinute } = yield* OrganizationLimits
      const use = yield* LimitUse
      // Tests and challenges are sent immediately: without a limit, a caller could flood a host that never agreed to receive anything.
      const admitTest = makeRateLimit(
        {
          windowSeconds: 60,
          isReported: true,
          limit: "endpoint_tests",
          requests: testsPerMinute,
          detail: `Rate limit exceeded: an endpoint can be sent ${testsPerMinute} test events per minute.`
        },
        use
      )
      const changes = makeEndpointChanges({
        ...{ sql, clock, box, egress, delivery, organizations, audit, use, onlyVerified },
        challengesPerMinute,
        invalidateEndpoints
      })

      return Notifications.of({
        list: Effect.gen(function* () {
          const { org_id } = yield* Authorized("org_config.read")
          const rows = yield* Effect.orDie(listEndpoints(sql, org_id))
          const health = yield* delivery.health(
            org_id,
            rows.map(({ endpoint_id }) => endpoint_id)
          )
          return {
            endpoints: rows.map((row) => changes.toEndpoint(row, health.get(row.endpoint_id))),
            email_notifier: yield* email.hasRecipients(org_id)
          }
        }).pipe(Effect.withSpan("Notifications.list")),
        create: changes.create,
        update: changes.update,
        rotateSecret: changes.rotateSecret,
        test: Effect.fn("Notifications.test")(function* (id) {
          const principal = yield* Authorized("org_config.write")
          yield* admitTest(`${principal.org_id} ${id}`)
          return yield* deliveries.test(principal, id)
        }),
        verify: changes.verify,
        deliveries: Effect.fn("Notifications.deliveries")(function* (id) {
          const { org_id } = yield* Authorized("org_config.read")
          return yield* deliveries.list(org_id, id)
        }),
        delivery: Effect.fn("Notifications.delivery")(function* (id, delivery_id) {
          const { org_id } = yield* Authorized("org_config.read")
          return yield* deliveries.get(org_id, id, delivery_id)
        }),
        replay: Effect.fn("Notifications.replay")(function* (id, delivery_id) {
          yield* deliveries.replay(yield* Authorized("org_config.write"), id, delivery_id)
        }),
        replayMany: Effect.fn("Notifications.replayMany")(function* (list) {
          const principal = yield* Authorized("org_config.write")
          const byEndpoint = Map.groupBy(list, ({ endpoint_id }) => endpoint_id)
          const results = yield* Effect.forEach(byEndpoint, ([id, ofEndpoint]) =>
            deliveries.replayMany(principal, id, Arr.dedupe(ofEndpoint.map(({ delivery_id }) => delivery_id)))
          )
          return results.flat()
        }),
        replayWindow: Effect.fn("Notifications.replayWindow")(function* (id, window) {
          return yield* deliveries.replayWindow(yield* Authorized("org_config.write"), id, window)
        }),
        retryNow: Effect.fn("Notifications.retryNow")(function* (id) {
          const principal = yield* Authorized("org_config.write")
          yield* admitTest(`${principal.org_id} ${id}`)
          yield* deliveries.retryNow(principal, id)
        }),
        remove: changes.remove,
        prepare: Effect.fnUntraced(function* (org_id, transition, now) {
          const { event: type, approval } = transition
          if (email.enabled && isApprovalEmailType(type)) return undefined
          const endpoints = (yield* endpointCache.activeEndpoints(org_id)).filter(({ events }) =>
            events.includes(type)
          )
          const event_id = yield* EventId.generate
          const body = Buffer.from(
            approvalEventBody({ id: event_id, type, org_id, occurred_at: now, approval })
          )
          // The statement checks the versions. If it writes nothing, no attempt asks for the event.
          recent.keep({ event_id, type, body }, endpoints)
          return {
            org_id,
            type,
            endpoints: endpointVersions(endpoints),
            event_id,
            body,
            deliveries: yield* delivery.prepare(
              endpoints.map(({ endpoint_id }) => ({
                org_id,
                channel: WEBHOOK,
                destination_id: endpoint_id,
                event_id,
                label: `${type} ${approval.approval_id}`
              }))
            ),
            onlyVerified
          }
        }),
        invalidateEndpoints,
        publish: Effect.fn("Notifications.publish")(function* (org_id, events, now) {
          yield* publishToEndpoints(sql, delivery, recent, org_id, events, now, onlyVerified)
          yield* email.publish(org_id, events, now)
        }, Effect.orDie)
      })
    })
  )
}
