import { Clock, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"
import { DeliveryId } from "../../../domain/Ids.ts"
import { toDate } from "../../../domain/Time.ts"
import { addressNetwork } from "../../../domain/network/addressNetwork.ts"
import { retryAfterMillis } from "../../egress/retryAfterMillis.ts"
import { VERSION } from "../../../domain/Version.ts"
import { signatureHeaders } from "../../../domain/delivery/WebhookSignature.ts"
import {
  type Channel,
  type ChannelPolicy,
  defaultChannelPolicy,
  type DeliveryRef,
  type ReceiverRateOptions
} from "../../delivery/Delivery.ts"
import { type AdmitNetwork, AttemptHeld, refuse, type SendAttempt } from "../../delivery/Channel.ts"
import { expireEvents } from "../../delivery/expireEvents.ts"
import { deliveryRefRows } from "../../delivery/deliveryRefRows.ts"
import { Egress } from "../../egress/Egress.ts"
import type { EgressResponse } from "../../egress/EgressResponse.ts"
import { appendedEntries, auditRowsTable } from "../../identity/auditWrites.ts"
import { makePrepare } from "../../identity/Audit.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { currentTime } from "../../store/currentTime.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { makeStatementBatcher } from "../../store/makeStatementBatcher.ts"
import { StoreClock } from "../../store/StoreClock.ts"
import { clearReplacedSecrets } from "./rotateSecret.ts"
import { RecentEvents } from "./RecentEvents.ts"
import { VerificationPolicy } from "../../identity/VerificationPolicy.ts"
import { makeUnsealedEndpoints, type UnsealedEndpoint } from "./UnsealedEndpoints.ts"

/** The channel name of webhook deliveries, as stored with each delivery. */
export const WEBHOOK = "webhook"

/** Settings of the channel. Defaults: `defaultChannelPolicy`. */
export interface WebhookOptions {
  /** The delay before each attempt: there are as many attempts as delays. */
  readonly delays?: ReadonlyArray<Duration.Duration>
  /** Deliveries that can be queued for one endpoint. */
  readonly queueLimit?: number
  /** Consecutive failures that start a cooldown. */
  readonly cooldownAfter?: number
  /** Length of the first cooldown. */
  readonly cooldown?: Duration.Duration
  /** Upper bound of the growing cooldowns. */
  readonly maxCooldown?: Duration.Duration
  /** Attempts per second to one host. Default: not limited. */
  readonly hostRates?: ReceiverRateOptions
  /** Attempts per second to one network of addresses. Default: not limited. */
  readonly networkRates?: ReceiverRateOptions
}

/** Bytes that are read of a response. Only its status and `Retry-After` are used. */
const MAX_RESPONSE_BYTES = 16 * 1024

/** Attempts whose endpoint and event are loaded by one statement. */
const LOAD_BATCH = 256

const policyOf = (options: WebhookOptions): ChannelPolicy => {
  const { cooldown, retry } = defaultChannelPolicy
  return {
    ...defaultChannelPolicy,
    retry: { ...retry, delaysMillis: options.delays?.map(Duration.toMillis) ?? retry.delaysMillis },
    cooldown: {
      failureThreshold: options.cooldownAfter ?? cooldown.failureThreshold,
      firstMillis:
        options.cooldown === undefined ? cooldown.firstMillis : Duration.toMillis(options.cooldown),
      longestMillis:
        options.maxCooldown === undefined ? cooldown.longestMillis : Duration.toMillis(options.maxCooldown)
    },
    queueLimit: options.queueLimit ?? defaultChannelPolicy.queueLimit,
    ...(options.hostRates === undefined ? {} : { receiverRates: options.hostRates }),
    ...(options.networkRates === undefined ? {} : { networkRates: options.networkRates })
  }
}

/** The event and the endpoint of one attempt. A column is null if its row was removed. */
interface LoadedAttempt {
  readonly type: string | null
  readonly body: Uint8Array | null
  readonly url: Uint8Array | null
  readonly secret: Uint8Array | null
  /** The secret before a rotation, while it still signs. */
  readonly previousSecret: Uint8Array | null
  readonly publicSignature: boolean
  readonly active: boolean | null
  readonly verified: boolean
  /** The version of the endpoint's row. */
  readonly version: string | null
}

/**
 * Signed webhooks: the delivery channel of approval events.
 *
 * - Each attempt and each replay sends the bytes that were stored with the event. Signature and timestamp are new for each attempt.
 * - Each attempt loads the endpoint again: a removed or disabled endpoint gets no further requests. Only the first attempt right after the
 *   commit uses the endpoint as that transaction read it (`RecentEvents`).
 * - An unverified endpoint gets no events if the installation requires verification.
 * - 2xx is success. 410 Gone disables the endpoint. Every other status and every network error is retried by the channel's policy.
 */
export const make = Effect.fnUntraced(function* (options: WebhookOptions = {}) {
  const sql = yield* SqlClient.SqlClient
  const egress = yield* Egress
  const recent = yield* RecentEvents
  const endpoints = makeUnsealedEndpoints(yield* SecretBox)
  const storeClock = yield* StoreClock
  // Receivers compare the time of a signature with their own.
  const clock = yield* Clock.Clock
  const prepareAuditRow = makePrepare(storeClock)
  const policy = policyOf(options)
  const onlyVerified = (yield* VerificationPolicy).endpoints

  const loadAttempt = yield* makeStatementBatcher({
    sql,
    maxBatch: LOAD_BATCH,
    organizationOf: ({ org_id }: DeliveryRef) => org_id,
    run: (refs, org_id) => sql<LoadedAttempt>`
      SELECT
        e.type, e.body, p.url, p.secret, p.active, p.verified_at IS NOT NULL AS verified, p.xmin::text AS version, coalesce(p.public_signature, false) AS "publicSignature",
        CASE WHEN p.previous_secret_until > ${currentTime(sql, storeClock)} THEN p.previous_secret END AS "previousSecret"
      FROM ${deliveryRefRows(sql, refs)}
      LEFT JOIN notification_endpoints p ON p.org_id = i.org_id AND p.endpoint_id = i.destination_id
        ${onlyOrganization(sql, "p.org_id", org_id)}
      LEFT JOIN approval_events e ON e.org_id = i.org_id AND e.event_id = i.event_id
        ${onlyOrganization(sql, "e.org_id", org_id)}
      ORDER BY i.number
    `
  })

  // `send` and `load` run for every delivery: plain composition, no generators.
  const send =
    (
      ref: DeliveryRef,
      type: string,
      body: Uint8Array,
      endpoint: UnsealedEndpoint,
      admit: AdmitNetwork
    ): SendAttempt =>
    (began) => {
      const now = clock.currentTimeMillisUnsafe()
      return Effect.matchEffect(
        egress.send({
          organization: ref.org_id,
          pool: ref.destination_id,
          url: endpoint.url,
          method: "POST",
          headers: {
            "content-type": "application/json",
            "user-agent": `Countersign/${VERSION}`,
            ...signatureHeaders(endpoint.keys, {
              eventId: ref.event_id,
              eventType: type,
              timestamp: Math.floor(now / 1000),
              body
            })
          },
          body,
          timeout: policy.deadlineMillis,
          began,
          maxResponseBytes: MAX_RESPONSE_BYTES,
          admit: (address) => admit(addressNetwork(address))
        }),
        {
          onSuccess: (response) => Effect.succeed(outcomeOf(response, now)),
          onFailure: ({ phrase, reason }) =>
            reason === "HeldBack" ? Effect.fail(new AttemptHeld()) : Effect.succeed(retry(phrase))
        }
      )
    }

  // Unsealed here and not when it is sent: the engine then asks for the host.
  const loadStored = (ref: DeliveryRef, admit: AdmitNetwork) =>
    Effect.flatMap(
      loadAttempt(ref),
      ({ active, body, previousSecret, publicSignature, secret, type, url, verified, version }) => {
        if (url === null || secret === null || version === null || active !== true) {
          endpoints.evict(ref.destination_id)
          return Effect.succeed(
            refuse(url === null ? "the endpoint was removed" : "the endpoint is disabled")
          )
        }
        if (onlyVerified && !verified) {
          endpoints.evict(ref.destination_id)
          return Effect.succeed(refuse("the endpoint is not verified"))
        }
        if (body === null || type === null)
          return Effect.succeed(refuse("the event was removed by retention"))
        const sealed = { url, secret, previousSecret, publicSignature, version }
        const cached = endpoints.get(ref, sealed)
        if (cached !== undefined) return Effect.succeed(send(ref, type, body, cached, admit))
        return Effect.match(endpoints.unseal(ref, sealed), {
          onSuccess: (endpoint) => send(ref, type, body, endpoint, admit),
          onFailure: (error) => () =>
            Effect.as(Effect.logError("Could not decrypt a webhook endpoint", error), undecryptable)
        })
      }
    )

  const load: Channel["load"] = (ref, admit) => {
    const event = recent.take(ref)
    const endpoint = event === undefined ? undefined : endpoints.getVersion(ref, event.version)
    if (event === undefined || endpoint === undefined) return loadStored(ref, admit)
    // The commit's own fiber starts this attempt: its request is answered first.
    return Effect.as(Effect.yieldNow, send(ref, event.type, event.body, endpoint, admit))
  }

  return {
    name: WEBHOOK,
    ids: DeliveryId,
    policy,
    load,
    // Attempts in flight are fewer than cached endpoints, so the endpoint of one that was just loaded is cached. A refused one has none.
    receiverOf: endpoints.hostOf,
    disable: Effect.fnUntraced(function* (org_id, endpoint_id, delivery_id) {
      endpoints.evict(endpoint_id)
      const entry = yield* prepareAuditRow({ org_id, actor: null }, "endpoint.disabled", endpoint_id, {
        status: 410,
        delivery_id
      })
      const disabled = yield* sql`
        WITH disabled AS (
          UPDATE notification_endpoints
          SET
            active = false,
            disabled_at = ${toDate(entry.occurred_at)}::timestamptz,
            disabled_by_id = NULL,
            disabled_by_name = NULL,
            disabled_by_delivery = ${delivery_id},
            unreported_entry_id = ${entry.entry_id}
          WHERE org_id = ${org_id}
            AND endpoint_id = ${endpoint_id}
            AND active
          RETURNING endpoint_id
        ), ${appendedEntries(sql, {
          entries: sql`SELECT entry.* FROM ${auditRowsTable(sql, [entry])} CROSS JOIN disabled`,
          org_id
        })}
        SELECT endpoint_id
        FROM disabled
      `
      if (disabled.length === 0) return
      yield* Effect.annotateLogs(Effect.logWarning("A webhook endpoint was disabled: it answered 410 Gone"), {
        org_id,
        destination_id: endpoint_id,
        delivery_id
      })
    }),
    expire: (cutoff, limit, org_id) =>
      Effect.andThen(
        clearReplacedSecrets(sql, storeClock, limit),
        expireEvents(sql, "approval_events", cutoff, limit, org_id)
      )
  } satisfies Channel
})

const retry = (error: string): AttemptOutcome => ({ _tag: "Retry", error, status: null, retryAfter: null })

/** Retried, because the operator can restore the missing master key. */
const undecryptable = retry("the endpoint's stored URL or secret could not be decrypted")

/** Redirects are never followed; they are retried like errors. */
const outcomeOf = ({ retryAfter, status }: EgressResponse, now: number): AttemptOutcome => {
  if (status >= 200 && status < 300) return { _tag: "Delivered", status }
  if (status === 410) return { _tag: "Gone", status, error: "HTTP 410: the endpoint was disabled" }
  return {
    _tag: "Retry",
    status,
    error: status >= 300 && status < 400 ? `HTTP ${status}: redirects are not followed` : `HTTP ${status}`,
    retryAfter: retryAfter === undefined ? null : retryAfterMillis(retryAfter, now)
  }
}
