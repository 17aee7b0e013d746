import { Array as Arr, Effect, Option, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { Authorized } from "../../../api/Authorization.ts"
import { notFound } from "../../../api/notFound.ts"
import type {
  NewNotificationEndpoint,
  NotificationEndpointChange
} from "../../../api/NotificationEndpoints.ts"
import { LimitReached, VerificationFailed } from "../../../api/Problems.ts"
import { defaultEventTypes } from "../../../domain/approvals/ApprovalEvent.ts"
import type {
  EndpointDisabledBy,
  NotificationEndpoint
} from "../../../domain/delivery/NotificationEndpoint.ts"
import { generateSigningSecret } from "../../../domain/delivery/WebhookSignature.ts"
import { actorOf } from "../../../domain/identity/Principal.ts"
import { EndpointId, type OrgId } from "../../../domain/Ids.ts"
import { urlHint } from "../../../domain/network/PublicUrl.ts"
import { makeRateLimit } from "../../admission/makeRateLimit.ts"
import type { Delivery, DestinationHealth } from "../../delivery/Delivery.ts"
import type { Egress } from "../../egress/Egress.ts"
import { invalidUrl } from "../../egress/invalidUrl.ts"
import type { Audit } from "../../identity/Audit.ts"
import type { Organizations } from "../../identity/Organizations.ts"
import type { LimitUse } from "../../observability/LimitUse.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { atomic } from "../../store/transaction.ts"
import { rotateSecret } from "./rotateSecret.ts"
import {
  countEndpoints,
  deleteEndpoint,
  endpointPlace,
  type EndpointRow,
  insertEndpoint,
  updateEndpoint,
  updateVerified
} from "./rows.ts"
import { sendChallenge } from "./sendChallenge.ts"
import { makeUnsealedEndpoints } from "./UnsealedEndpoints.ts"

/** The most endpoints of one organization. */
const MAX_ENDPOINTS = 50

/** Who disabled an endpoint; null if it is active. */
const disabledOf = (row: EndpointRow): EndpointDisabledBy | null =>
  row.active || row.disabled_at === null
    ? null
    : {
        at: row.disabled_at,
        by: actorOf(row.disabled_by_id, row.disabled_by_name),
        delivery_id: row.disabled_by_delivery
      }

/** A new endpoint and its signing secret, which cannot be read again. */
export interface CreatedEndpoint {
  readonly endpoint: NotificationEndpoint
  readonly secret: Redacted.Redacted<string>
}

/** Dependencies. */
interface Options {
  readonly sql: SqlClient.SqlClient
  readonly clock: StoreClock["Service"]
  readonly box: SecretBox["Service"]
  readonly egress: Egress["Service"]
  readonly delivery: Delivery["Service"]
  readonly organizations: Organizations["Service"]
  readonly audit: Audit["Service"]
  readonly use: LimitUse["Service"]
  /** Whether only verified endpoints receive events. */
  readonly onlyVerified: boolean
  readonly challengesPerMinute: number
  readonly invalidateEndpoints: (org_id: OrgId) => Effect.Effect<void>
}

/** Changes of endpoints: see `Notifications.create`, `update`, `rotateSecret`, `verify` and `remove`. */
export const makeEndpointChanges = ({
  audit,
  box,
  challengesPerMinute,
  clock,
  delivery,
  egress,
  invalidateEndpoints,
  onlyVerified,
  organizations,
  sql,
  use
}: Options) => {
  const atomically = atomic(sql)
  // Limited per organization, because endpoints can be created and removed at any rate.
  const admitChallenge = makeRateLimit(
    {
      windowSeconds: 60,
      isReported: true,
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

  return {
    toEndpoint,
    create: Effect.fn("Notifications.create")(function* (input: NewNotificationEndpoint) {
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
      id: EndpointId,
      { active, description, events, public_signature }: NotificationEndpointChange
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
    rotateSecret: Effect.fn("Notifications.rotateSecret")(function* (id: EndpointId) {
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
    verify: Effect.fn("Notifications.verify")(function* (id: EndpointId) {
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
    remove: Effect.fn("Notifications.remove")(function* (id: EndpointId) {
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
    })
  }
}
