import { Array as Arr, Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { DeliveryOfEndpoint, ReplayResult } from "../../api/console/Deliveries.ts"
import { notFound } from "../../api/notFound.ts"
import type {
  NewNotificationEndpoint,
  NotificationEndpointChange,
  ReplayWindow,
  TestDelivery
} from "../../api/NotificationEndpoints.ts"
import {
  type EndpointDisabled,
  type InvalidUrl,
  LimitReached,
  type NotFound,
  type NotReplayable,
  type QueueFull,
  type RateLimited,
  VerificationFailed
} from "../../api/Problems.ts"
import {
  approvalEventBody,
  type ApprovalTransitionEvent,
  defaultEventTypes
} from "../../domain/approvals/ApprovalEvent.ts"
import { isApprovalEmailType } from "../../domain/approvals/ApprovalEmail.ts"
import type { DeliveryDetail, DeliveryRecord } from "../../domain/delivery/DeliveryState.ts"
import { type DeliveryId, EndpointId, EventId, type OrgId } from "../../domain/Ids.ts"
import type { EndpointDisabledBy, NotificationEndpoint } from "../../domain/delivery/NotificationEndpoint.ts"
import { urlHint } from "../../domain/network/PublicUrl.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { generateSigningSecret } from "../../domain/delivery/WebhookSignature.ts"
import { Audit } from "../identity/Audit.ts"
import { isCluster } from "../store/Cluster.ts"
import { atomic } from "../store/transaction.ts"
import { Delivery, type DestinationHealth } from "../delivery/Delivery.ts"
import { Egress } from "../egress/Egress.ts"
import { invalidUrl } from "../egress/invalidUrl.ts"
import { Email } from "./Email.ts"
import { makeEndpointCache } from "./Notifications/EndpointCache.ts"
import { makeEndpointDeliveries } from "./Notifications/EndpointDeliveries.ts"
import {
  countEndpoints,
  deleteEndpoint,
  type EndpointRow,
  endpointPlace,
  listEndpoints,
  insertEndpoint,
  updateEndpoint,
  updateVerified
} from "./Notifications/rows.ts"
import { publishToEndpoints } from "./Notifications/publishToEndpoints.ts"
import { RecentEvents } from "./Notifications/RecentEvents.ts"
import { WEBHOOK } from "./Notifications/WebhookChannel.ts"
import { endpointVersions, type PreparedEvent } from "./PreparedEvent.ts"
import { sendChallenge } from "./Notifications/sendChallenge.ts"
import { makeUnsealedEndpoints } from "./Notifications/UnsealedEndpoints.ts"
import { rotateSecret } from "./Notifications/rotateSecret.ts"
import { makeRateLimit } from "../admission/makeRateLimit.ts"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { Organizations } from "../identity/Organizations.ts"
import { VerificationPolicy } from "../identity/VerificationPolicy.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** The most endpoints of one organization. */
const MAX_ENDPOINTS = 50

/** Who disabled an endpoint; null if it is active, or if that was not recorded. */
const disabledOf = (row: EndpointRow): EndpointDisabledBy | null =>
  row.active || row.disabled_at === null
    ? null
    : {
        at: row.disabled_at,
        by: row.disabled_by_id === null ? null : { id: row.disabled_by_id, name: row.disabled_by_name ?? "" },
        delivery_id: row.disabled_by_delivery
      }

/** A new endpoint and its signing secret, which cannot be read again. */
export interface CreatedEndpoint {
  readonly endpoint: NotificationEndpoint
  readonly secret: Redacted.Redacted<string>
}

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
      const atomically = atomic(sql)
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
      const perMinute = { windowSeconds: 60, isReported: true } as const
      const admitTest = makeRateLimit(
        {
          ...perMinute,
          limit: "endpoint_tests",
          requests: testsPerMinute,
          detail: `Rate limit exceeded: an endpoint can be sent ${testsPerMinute} test events per minute.`
        },
        use
      )
      // Limited per organization, because endpoints can be created and removed at any rate.
      const admitChallenge = makeRateLimit(
        {
          ...perMinute,
          limit: "endpoint_challenges",
          requests: challengesPerMinute,
          detail: `Rate limit exceeded: an organization can verify endpoints ${challengesPerMinute} times per minute.`
        },
        use
      )
      const challenge = { sql, delivery, egress, clock, endpoints: makeUnsealedEndpoints(box) }

      const toEndpoint = (row: EndpointRow, health: DestinationHealth | undefined): NotificationEndpoint => ({
        id: row.endpoint_id,
        description: row.description,
        events: row.events,
        active: row.active,
        public_signature: row.public_signature,
        disabled: disabledOf(row),
        verified_at: row.verified_at,
        awaits_verification: onlyVerified && row.verified_at === null,
        created_at: row.created_at,
        created_by: { id: row.created_by_id, name: row.created_by_name },
        url_hint: row.url_hint,
        cooldown_until: health?.cooldown_until ?? null,
        consecutive_failures: health?.consecutive_failures ?? 0,
        pending_deliveries: health?.pending_deliveries ?? 0
      })

      const withItsHealth = (row: EndpointRow) =>
        Effect.map(delivery.health(row.org_id, [row.endpoint_id]), (health) =>
          toEndpoint(row, health.get(row.endpoint_id))
        )

      return Notifications.of({
        list: Effect.gen(function* () {
          const { org_id } = yield* Authorized("org_config.read")
          const rows = yield* Effect.orDie(listEndpoints(sql, org_id))
          const health = yield* delivery.health(
            org_id,
            rows.map(({ endpoint_id }) => endpoint_id)
          )
          return {
            endpoints: rows.map((row) => toEndpoint(row, health.get(row.endpoint_id))),
            email_notifier: yield* email.hasRecipients(org_id)
          }
        }).pipe(Effect.withSpan("Notifications.list")),
        create: Effect.fn("Notifications.create")(function* (input) {
          const principal = yield* Authorized("org_config.write")
          const { actor, org_id } = principal
          yield* Effect.mapError(egress.vet(input.url), invalidUrl("#/url"))
          const endpoint_id = yield* EndpointId.generate
          const secret = yield* generateSigningSecret
          const row: EndpointRow = {
            org_id,
            endpoint_id,
            url: yield* box.seal(endpointPlace(org_id, endpoint_id, "url"), Redacted.make(input.url)),
            url_hint: urlHint(input.url),
            description: input.description ?? null,
            secret: yield* box.seal(endpointPlace(org_id, endpoint_id, "secret"), secret),
            events: Arr.dedupe(input.events ?? defaultEventTypes),
            active: true,
            public_signature: input.public_signature ?? false,
            disabled_at: null,
            disabled_by_id: null,
            disabled_by_name: null,
            disabled_by_delivery: null,
            verified_at: null,
            created_at: yield* clock.now,
            created_by_id: actor.id,
            created_by_name: actor.name
          }
          yield* atomically(
            Effect.gen(function* () {
              // Serializes the organization's creations: concurrent ones could otherwise exceed the limit.
              yield* organizations.lockForUpdate(org_id)
              if ((yield* countEndpoints(sql, org_id)) >= MAX_ENDPOINTS) {
                return yield* new LimitReached({
                  detail: `Too many webhook endpoints (limit ${MAX_ENDPOINTS} for each organization). Remove one first.`
                })
              }
              yield* insertEndpoint(sql, row)
              yield* sql.afterCommit(invalidateEndpoints(org_id))
              const { description, events, url_hint } = row
              yield* audit.record(principal, "endpoint.created", endpoint_id, {
                url_hint,
                description,
                events
              })
            })
          )
          // Nothing was sent to it yet. A read that failed after the commit would lose the secret.
          return { endpoint: toEndpoint(row, undefined), secret }
        }),
        update: Effect.fn("Notifications.update")(function* (
          id,
          { active, description, events, public_signature }
        ) {
          const principal = yield* Authorized("org_config.write")
          const change = {
            ...(description === undefined ? {} : { description }),
            ...(active === undefined ? {} : { active }),
            ...(public_signature === undefined ? {} : { public_signature }),
            ...(events === undefined ? {} : { events: Arr.dedupe(events) })
          }
          const row = yield* atomically(
            Effect.gen(function* () {
              const row = yield* updateEndpoint(sql, principal.org_id, id, change, {
                actor: principal.actor,
                now: yield* clock.now
              })
              if (Option.isNone(row)) return yield* notFound("endpoint")
              yield* sql.afterCommit(invalidateEndpoints(principal.org_id))
              if (active === true) yield* delivery.endCooldown(principal.org_id, id)
              yield* audit.record(principal, "endpoint.updated", id, change)
              return row.value
            })
          )
          return yield* withItsHealth(row)
        }),
        rotateSecret: Effect.fn("Notifications.rotateSecret")(function* (id) {
          const principal = yield* Authorized("org_config.write")
          return yield* atomically(
            Effect.gen(function* () {
              const secret = yield* rotateSecret(sql, box, clock, principal.org_id, id)
              if (Option.isNone(secret)) return yield* notFound("endpoint")
              yield* audit.record(principal, "endpoint.secret_rotated", id)
              return secret.value
            })
          )
        }),
        test: Effect.fn("Notifications.test")(function* (id) {
          const principal = yield* Authorized("org_config.write")
          yield* admitTest(`${principal.org_id} ${id}`)
          return yield* deliveries.test(principal, id)
        }),
        verify: Effect.fn("Notifications.verify")(function* (id) {
          const principal = yield* Authorized("org_config.write")
          const { org_id } = principal
          yield* admitChallenge(org_id)
          const failure = yield* sendChallenge(challenge, org_id, id)
          if (failure !== null) {
            yield* atomically(audit.record(principal, "endpoint.verification_failed", id, { error: failure }))
            return yield* new VerificationFailed({
              detail: `The endpoint did not answer the challenge: ${failure}. Configure the receiver with the endpoint's signing secret, then verify again.`
            })
          }
          const row = yield* atomically(
            Effect.gen(function* () {
              const row = yield* updateVerified(sql, org_id, id, yield* clock.now)
              if (Option.isNone(row)) return yield* notFound("endpoint")
              yield* sql.afterCommit(invalidateEndpoints(org_id))
              yield* audit.record(principal, "endpoint.verified", id, { url_hint: row.value.url_hint })
              return row.value
            })
          )
          return yield* withItsHealth(row)
        }),
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
        remove: Effect.fn("Notifications.remove")(function* (id) {
          const principal = yield* Authorized("org_config.write")
          const { org_id } = principal
          yield* atomically(
            Effect.gen(function* () {
              if (!(yield* deleteEndpoint(sql, org_id, id))) return yield* notFound("endpoint")
              yield* delivery.discard(org_id, id)
              yield* sql.afterCommit(invalidateEndpoints(org_id))
              yield* audit.record(principal, "endpoint.removed", id)
            })
          )
        }),
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
