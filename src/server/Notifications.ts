import { Array as Arr, Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../api/Authorization.ts"
import type { NewNotificationEndpoint } from "../api/NotificationEndpoints.ts"
import { InvalidUrl, LimitReached, NotFound } from "../api/Problems.ts"
import { approvalEventTypes, eventBody } from "../domain/ApprovalEvent.ts"
import { EndpointId, EventId, type OrgId } from "../domain/Ids.ts"
import type { NotificationEndpoint } from "../domain/NotificationEndpoint.ts"
import { urlHint } from "../domain/PublicUrl.ts"
import { type Timestamp, toDate } from "../domain/Time.ts"
import { generateSecret } from "../domain/WebhookSignature.ts"
import type { Moment } from "./Approvals/record.ts"
import { afterCommit, atomic } from "./Database.ts"
import { Delivery } from "./Delivery.ts"
import { Egress } from "./Egress.ts"
import {
  countEndpoints,
  deleteEndpoint,
  type EndpointRow,
  endpointPlace,
  endpointsOf,
  insertEndpoint,
  insertEvents,
  subscribersOf
} from "./Notifications/rows.ts"
import { Organizations } from "./Organizations.ts"
import { SecretBox } from "./SecretBox.ts"
import { StoreClock } from "./StoreClock.ts"

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
    readonly list: Effect.Effect<ReadonlyArray<NotificationEndpoint>, never, Authorized<"org_config.read">>
    /** The URL is looked up and judged now, and again at every attempt. */
    readonly create: (
      input: NewNotificationEndpoint
    ) => Effect.Effect<CreatedEndpoint, InvalidUrl | LimitReached, Authorized<"org_config.write">>
    /** Future sends stop; a request already in flight may still arrive. */
    readonly remove: (id: EndpointId) => Effect.Effect<void, NotFound, Authorized<"org_config.write">>
    /**
     * Within the caller's transaction: writes the events, the exact bytes that will be signed, and a delivery for each endpoint
     * that is active and subscribed. Events that nobody subscribed to leave nothing behind.
     */
    readonly publish: (
      org_id: OrgId,
      moments: Arr.NonEmptyReadonlyArray<Moment>,
      now: Timestamp
    ) => Effect.Effect<void>
  }
>()("countersign/server/Notifications") {
  static readonly layer = Layer.effect(
    Notifications,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const box = yield* SecretBox
      const egress = yield* Egress
      const delivery = yield* Delivery
      const organizations = yield* Organizations

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

      return Notifications.of({
        list: Effect.gen(function* () {
          const { org_id } = yield* Authorized("org_config.read")
          return yield* shown(org_id, yield* Effect.orDie(endpointsOf(sql, org_id)))
        }).pipe(Effect.withSpan("Notifications.list")),
        create: Effect.fn("Notifications.create")(function* (input) {
          const { actor, org_id } = yield* Authorized("org_config.write")
          yield* egress
            .vet(input.url)
            .pipe(
              Effect.catchTag(
                "UrlRefused",
                ({ phrase }) =>
                  new InvalidUrl({ detail: phrase, errors: [{ pointer: "#/url", detail: phrase }] })
              )
            )
          const endpoint_id = yield* EndpointId.generate
          const secret = yield* generateSecret
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
              yield* organizations.lock(org_id)
              if ((yield* countEndpoints(sql, org_id)) >= MAX_ENDPOINTS) {
                return yield* new LimitReached({
                  detail: `An organization has ${MAX_ENDPOINTS} endpoints at most`
                })
              }
              yield* insertEndpoint(sql, row)
            })
          )
          const [endpoint] = yield* shown(org_id, [row])
          return { endpoint: endpoint ?? (yield* Effect.die("An endpoint that was made is shown")), secret }
        }),
        remove: Effect.fn("Notifications.remove")(function* (id) {
          const { org_id } = yield* Authorized("org_config.write")
          yield* atomically(
            Effect.gen(function* () {
              if (!(yield* deleteEndpoint(sql, org_id, id))) {
                return yield* new NotFound({ detail: "There is no such endpoint in this organization" })
              }
              yield* delivery.discard(org_id, id)
            })
          )
        }),
        publish: Effect.fn("Notifications.publish")(function* (org_id, moments, now) {
          const subscribers = yield* subscribersOf(sql, org_id, Arr.dedupe(moments.map(({ event }) => event)))
          if (subscribers.length === 0) return
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
          if (!Arr.isArrayNonEmpty(wanted)) return
          yield* insertEvents(sql, wanted)
          yield* delivery.enqueue(
            wanted.flatMap(({ approval_id, event_id, type }) =>
              subscribers
                .filter(({ events }) => events.includes(type))
                .map(({ endpoint_id }) => ({
                  org_id,
                  channel: "webhook",
                  destination_id: endpoint_id,
                  event_id,
                  label: `${type} ${approval_id}`
                }))
            )
          )
          yield* afterCommit(delivery.wake)
        }, Effect.orDie)
      })
    })
  )
}
