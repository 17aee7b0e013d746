import { Array as Arr, Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type {
  NewNotificationEndpoint,
  NotificationEndpointChange,
  ReplayWindow,
  TestDelivery
} from "../../api/NotificationEndpoints.ts"
import {
  type InvalidUrl,
  LimitReached,
  type NotFound,
  type NotReplayable,
  type QueueFull
} from "../../api/Problems.ts"
import { approvalEventTypes, type ApprovalTransitionEvent } from "../../domain/approvals/ApprovalEvent.ts"
import type { DeliveryDetail, DeliveryRecord } from "../../domain/delivery/DeliveryState.ts"
import { type DeliveryId, EndpointId, type OrgId } from "../../domain/Ids.ts"
import type { NotificationEndpoint } from "../../domain/delivery/NotificationEndpoint.ts"
import { urlHint } from "../../domain/network/PublicUrl.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { generateSigningSecret } from "../../domain/delivery/WebhookSignature.ts"
import { Audit } from "../identity/Audit.ts"
import { atomic } from "../store/Database/transaction.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { Egress } from "../egress/Egress.ts"
import { invalidUrl } from "../egress/Egress/invalidUrl.ts"
import { Email } from "./Email.ts"
import { makeEndpointDeliveries, endpointNotFound } from "./Notifications/EndpointDeliveries.ts"
import {
  countEndpoints,
  deleteEndpoint,
  type EndpointRow,
  endpointPlace,
  listEndpoints,
  insertEndpoint,
  updateEndpoint
} from "./Notifications/rows.ts"
import { publishToEndpoints } from "./Notifications/publishToEndpoints.ts"
import { rotateSecret } from "./Notifications/rotateSecret.ts"
import { Organizations } from "../identity/Organizations.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** The most endpoints an organization may have. */
const MAX_ENDPOINTS = 50

/** An endpoint and, this once, its signing secret. */
export interface CreatedEndpoint {
  readonly endpoint: NotificationEndpoint
  readonly secret: Redacted.Redacted<string>
}

/** Receivers of approval events, and the events on their way to them. */
export class Notifications extends Context.Service<
  Notifications,
  {
    /** The organization's endpoints, newest first, and whether its reviewers are reached by mail. */
    readonly list: Effect.Effect<
      { readonly endpoints: ReadonlyArray<NotificationEndpoint>; readonly email_notifier: boolean },
      never,
      Authorized<"org_config.read">
    >
    /** The URL is looked up and judged now, and again at every attempt. */
    readonly create: (
      input: NewNotificationEndpoint
    ) => Effect.Effect<CreatedEndpoint, InvalidUrl | LimitReached, Authorized<"org_config.write">>
    /** Its address and its secret stay. Switching on also ends what a 410 began. */
    readonly update: (
      id: EndpointId,
      change: NotificationEndpointChange
    ) => Effect.Effect<NotificationEndpoint, NotFound, Authorized<"org_config.write">>
    /** A new signing secret. The one before it signs too, for 24 hours. */
    readonly rotateSecret: (
      id: EndpointId
    ) => Effect.Effect<Redacted.Redacted<string>, NotFound, Authorized<"org_config.write">>
    /** Sends a test event to one endpoint alone, whatever it subscribed to. */
    readonly test: (id: EndpointId) => Effect.Effect<TestDelivery, NotFound, Authorized<"org_config.write">>
    /** The latest 50, newest first. */
    readonly deliveries: (
      id: EndpointId
    ) => Effect.Effect<ReadonlyArray<DeliveryRecord>, NotFound, Authorized<"org_config.read">>
    readonly delivery: (
      id: EndpointId,
      delivery_id: DeliveryId
    ) => Effect.Effect<DeliveryDetail, NotFound, Authorized<"org_config.read">>
    /** Queues a failed delivery again: the same event, after the endpoint's cooldown. Of two at once one is refused. */
    readonly replay: (
      id: EndpointId,
      delivery_id: DeliveryId
    ) => Effect.Effect<void, NotFound | NotReplayable | QueueFull, Authorized<"org_config.write">>
    /** Queues every failed delivery of a window, oldest first, up to the capacity. */
    readonly replayWindow: (
      id: EndpointId,
      window: ReplayWindow
    ) => Effect.Effect<
      { readonly queued: number; readonly skipped: number },
      NotFound,
      Authorized<"org_config.write">
    >
    /** Future sends stop; a request already in flight may still arrive. */
    readonly remove: (id: EndpointId) => Effect.Effect<void, NotFound, Authorized<"org_config.write">>
    /**
     * Within the caller's transaction: writes the events, the exact bytes that will be signed, and a delivery for each endpoint
     * that is active and subscribed; and the mails to those who decide. Events that nobody is told of leave nothing behind.
     */
    readonly publish: (
      org_id: OrgId,
      moments: Arr.NonEmptyReadonlyArray<ApprovalTransitionEvent>,
      now: Timestamp
    ) => Effect.Effect<void>
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
      const email = yield* Email
      const organizations = yield* Organizations
      const audit = yield* Audit
      const deliveries = makeEndpointDeliveries(sql, delivery, clock, audit)

      const shown = Effect.fnUntraced(function* (org_id: OrgId, rows: ReadonlyArray<EndpointRow>) {
        const health = yield* delivery.health(
          org_id,
          rows.map((row) => row.endpoint_id)
        )
        return rows.map((row): NotificationEndpoint => {
          const now = health.get(row.endpoint_id)
          return {
            id: row.endpoint_id,
            events: row.events,
            active: row.active,
            created_at: row.created_at,
            created_by: { id: row.created_by_id, name: row.created_by_name },
            url_hint: row.url_hint,
            cooldown_until: now?.cooldown_until ?? null,
            consecutive_failures: now?.consecutive_failures ?? 0,
            pending_deliveries: now?.pending_deliveries ?? 0
          }
        })
      })

      const shownOne = Effect.fnUntraced(function* (row: EndpointRow) {
        const [endpoint] = yield* shown(row.org_id, [row])
        return endpoint ?? (yield* Effect.die(new Error("A stored endpoint must be shown")))
      })

      return Notifications.of({
        list: Effect.gen(function* () {
          const { org_id } = yield* Authorized("org_config.read")
          const endpoints = yield* shown(org_id, yield* Effect.orDie(listEndpoints(sql, org_id)))
          return { endpoints, email_notifier: yield* email.hasRecipients(org_id) }
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
            secret: yield* box.seal(endpointPlace(org_id, endpoint_id, "secret"), secret),
            events: Arr.dedupe(input.events ?? approvalEventTypes),
            active: true,
            created_at: yield* clock.now,
            created_by_id: actor.id,
            created_by_name: actor.name
          }
          yield* atomically(
            Effect.gen(function* () {
              // One creation of an organization at a time, or the limit could be passed by a race.
              yield* organizations.lockForUpdate(org_id)
              if ((yield* countEndpoints(sql, org_id)) >= MAX_ENDPOINTS) {
                return yield* new LimitReached({
                  detail: `An organization has ${MAX_ENDPOINTS} endpoints at most`
                })
              }
              yield* insertEndpoint(sql, row)
              const { events, url_hint } = row
              yield* audit.record(principal, "endpoint.created", endpoint_id, { url_hint, events })
            })
          )
          return { endpoint: yield* shownOne(row), secret }
        }),
        update: Effect.fn("Notifications.update")(function* (id, { active, events }) {
          const principal = yield* Authorized("org_config.write")
          const change = {
            ...(active === undefined ? {} : { active }),
            ...(events === undefined ? {} : { events: Arr.dedupe(events) })
          }
          const row = yield* atomically(
            Effect.gen(function* () {
              const row = yield* updateEndpoint(sql, principal.org_id, id, change)
              if (Option.isNone(row)) return yield* endpointNotFound
              yield* audit.record(principal, "endpoint.updated", id, change)
              return row.value
            })
          )
          return yield* shownOne(row)
        }),
        rotateSecret: Effect.fn("Notifications.rotateSecret")(function* (id) {
          const principal = yield* Authorized("org_config.write")
          return yield* atomically(
            Effect.gen(function* () {
              const secret = yield* rotateSecret(sql, box, clock, principal.org_id, id)
              if (Option.isNone(secret)) return yield* endpointNotFound
              yield* audit.record(principal, "endpoint.secret_rotated", id)
              return secret.value
            })
          )
        }),
        test: Effect.fn("Notifications.test")(function* (id) {
          return yield* deliveries.test(yield* Authorized("org_config.write"), id)
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
        replayWindow: Effect.fn("Notifications.replayWindow")(function* (id, window) {
          return yield* deliveries.replayWindow(yield* Authorized("org_config.write"), id, window)
        }),
        remove: Effect.fn("Notifications.remove")(function* (id) {
          const principal = yield* Authorized("org_config.write")
          const { org_id } = principal
          yield* atomically(
            Effect.gen(function* () {
              if (!(yield* deleteEndpoint(sql, org_id, id))) return yield* endpointNotFound
              yield* delivery.discard(org_id, id)
              yield* audit.record(principal, "endpoint.removed", id)
            })
          )
        }),
        publish: Effect.fn("Notifications.publish")(function* (org_id, moments, now) {
          yield* publishToEndpoints(sql, delivery, org_id, moments, now)
          yield* email.publish(org_id, moments, now)
        }, Effect.orDie)
      })
    })
  )
}
