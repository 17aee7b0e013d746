import { Clock, Duration, Effect, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"
import { DeliveryId, EndpointId } from "../../../domain/Ids.ts"
import { retryAfterMillis } from "../../egress/retryAfterMillis.ts"
import { VERSION } from "../../../domain/Version.ts"
import {
  signatureHeaders,
  makeSigningKey,
  type SigningKeys
} from "../../../domain/delivery/WebhookSignature.ts"
import {
  type Channel,
  type ChannelPolicy,
  defaultChannelPolicy,
  type DeliveryRef
} from "../../delivery/Delivery.ts"
import { refuse } from "../../delivery/Delivery/Channel.ts"
import { expireEvents } from "../../delivery/Delivery/expireEvents.ts"
import { deliveryRefRows } from "../../delivery/Delivery/deliveryRefRows.ts"
import { Egress } from "../../egress/Egress.ts"
import type { EgressResponse } from "../../egress/Egress/Exchange.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { makeStatementBatcher } from "../../store/Database/makeStatementBatcher.ts"
import { endpointPlace } from "./rows.ts"
import { clearReplacedSecrets } from "./rotateSecret.ts"

/** The name that deliveries of approval events carry. */
export const WEBHOOK = "webhook"

/** How the channel is set; what is left out has the contract's default. */
export interface WebhookOptions {
  /** The delay before each attempt; as many attempts as entries. */
  readonly delays?: ReadonlyArray<Duration.Duration>
  /** Deliveries that may wait for one endpoint. */
  readonly queueLimit?: number
  /** Failures in a row that begin a cooldown, its length, and its longest. */
  readonly cooldownAfter?: number
  readonly cooldown?: Duration.Duration
  readonly maxCooldown?: Duration.Duration
}

/** The most of an answer that is read. None of it is kept but the status. */
const MAX_ANSWER_BYTES = 16 * 1024

/** Attempts whose endpoint and event are read in one statement. */
const LOAD_BATCH = 256

/** Endpoints whose address and keys are kept open. */
const MAX_OPENED = 1_000

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
    queueLimit: options.queueLimit ?? defaultChannelPolicy.queueLimit
  }
}

/** What one attempt is made of, as it stands at this moment; null: it is there no more. */
interface Loaded {
  readonly type: string | null
  readonly body: Uint8Array | null
  readonly url: Uint8Array | null
  readonly secret: Uint8Array | null
  /** The secret that a rotation replaced, while it still signs. */
  readonly previous: Uint8Array | null
  readonly active: boolean | null
}

interface Opened {
  readonly sealedUrl: Uint8Array
  readonly sealedSecret: Uint8Array
  readonly sealedPrevious: Uint8Array | null
  readonly url: string
  readonly keys: SigningKeys
}

const sameBytes = (a: Uint8Array | null, b: Uint8Array | null): boolean =>
  a === null || b === null ? a === b : Buffer.compare(a, b) === 0

/**
 * Signed webhooks: the channel of approval events. Every attempt sends the bytes that were stored with the event, signed
 * anew, to the endpoint as it stands at that moment: one that was removed or switched off gets nothing more.
 */
export const make = Effect.fnUntraced(function* (options: WebhookOptions = {}) {
  const sql = yield* SqlClient.SqlClient
  const egress = yield* Egress
  const box = yield* SecretBox
  const clock = yield* Clock.Clock
  const policy = policyOf(options)

  const read = yield* makeStatementBatcher({
    maxBatch: LOAD_BATCH,
    run: (parcels: ReadonlyArray<DeliveryRef>) => sql<Loaded>`
      SELECT
        e.type, e.body, p.url, p.secret, p.active,
        CASE WHEN p.previous_secret_until > now() THEN p.previous_secret END AS previous
      FROM ${deliveryRefRows(sql, parcels)}
      LEFT JOIN notification_endpoints p ON p.org_id = i.org_id AND p.endpoint_id = i.destination_id
      LEFT JOIN approval_events e ON e.org_id = i.org_id AND e.event_id = i.event_id
      ORDER BY i.number
    `
  })

  const opened = new LruCache<Opened>({ entries: MAX_OPENED, weight: MAX_OPENED })

  /** The endpoint's address and keys, if they have been opened and are still the same. */
  const openedAs = (
    parcel: DeliveryRef,
    url: Uint8Array,
    secret: Uint8Array,
    previous: Uint8Array | null
  ) => {
    const known = opened.get(parcel.destination_id)
    return known !== undefined &&
      sameBytes(known.sealedUrl, url) &&
      sameBytes(known.sealedSecret, secret) &&
      sameBytes(known.sealedPrevious, previous)
      ? known
      : undefined
  }

  /** Opens the endpoint's address and keys, and keeps them open. */
  const open = Effect.fnUntraced(function* (
    parcel: DeliveryRef,
    sealedUrl: Uint8Array,
    sealedSecret: Uint8Array,
    sealedPrevious: Uint8Array | null
  ) {
    const endpoint_id = yield* decodeEndpointId(parcel.destination_id)
    const url = yield* box.unseal(endpointPlace(parcel.org_id, endpoint_id, "url"), sealedUrl)
    const key = (column: "secret" | "previous_secret", sealed: Uint8Array) =>
      Effect.flatMap(box.unseal(endpointPlace(parcel.org_id, endpoint_id, column), sealed), (secret) =>
        Effect.fromResult(makeSigningKey(secret))
      )
    const current = yield* key("secret", sealedSecret)
    const previous = sealedPrevious === null ? null : yield* key("previous_secret", sealedPrevious)
    const made: Opened = {
      sealedUrl,
      sealedSecret,
      sealedPrevious,
      url: Redacted.value(url),
      keys: { current, previous }
    }
    opened.set(parcel.destination_id, made, 1)
    return made
  })

  // By plain composition, as all of this: it runs for every delivery.
  const send = (
    parcel: DeliveryRef,
    type: string,
    body: Uint8Array,
    to: Opened
  ): Effect.Effect<AttemptOutcome> =>
    Effect.suspend(() => {
      const now = clock.currentTimeMillisUnsafe()
      return Effect.match(
        egress.send({
          pool: parcel.destination_id,
          url: to.url,
          method: "POST",
          headers: {
            "content-type": "application/json",
            "user-agent": `Countersign/${VERSION}`,
            ...signatureHeaders(to.keys, {
              eventId: parcel.event_id,
              eventType: type,
              timestamp: Math.floor(now / 1000),
              body
            })
          },
          body,
          timeout: policy.deadlineMillis,
          maxResponseBytes: MAX_ANSWER_BYTES
        }),
        {
          onSuccess: (answer) => judge(answer, now),
          onFailure: ({ phrase }): AttemptOutcome => ({
            _tag: "Retry",
            error: phrase,
            status: null,
            retryAfter: null
          })
        }
      )
    })

  const load: Channel["load"] = (parcel) =>
    Effect.map(read(parcel), ({ active, body, previous, secret, type, url }) => {
      if (url === null || secret === null) return refuse("the endpoint was removed")
      if (active !== true) return refuse("the endpoint is switched off")
      if (body === null || type === null) return refuse("the event is not kept any more")
      const known = openedAs(parcel, url, secret, previous)
      if (known !== undefined) return send(parcel, type, body, known)
      return open(parcel, url, secret, previous).pipe(
        Effect.matchEffect({
          onSuccess: (to) => send(parcel, type, body, to),
          onFailure: (error) =>
            Effect.as(Effect.logError("An endpoint's secrets cannot be opened", error), unopened)
        })
      )
    })

  return {
    name: WEBHOOK,
    ids: DeliveryId,
    policy,
    load,
    disable: (org_id, endpoint_id) => sql`
      UPDATE notification_endpoints
      SET active = false
      WHERE org_id = ${org_id}
        AND endpoint_id = ${endpoint_id}
    `,
    expire: (cutoff, limit) =>
      Effect.andThen(clearReplacedSecrets(sql, limit), expireEvents(sql, "approval_events", cutoff, limit))
  } satisfies Channel
})

const decodeEndpointId = Schema.decodeUnknownEffect(EndpointId)

/** Worth another attempt: an operator may give back the key that is missing. */
const unopened: AttemptOutcome = {
  _tag: "Retry",
  error: "the endpoint's stored address or secret cannot be opened",
  status: null,
  retryAfter: null
}

/** 2xx arrived; 410 wants nothing more; all else is worth another attempt, redirects too, which are never followed. */
const judge = ({ retryAfter, status }: EgressResponse, now: number): AttemptOutcome => {
  if (status >= 200 && status < 300) return { _tag: "Delivered", status }
  if (status === 410) return { _tag: "Gone", status, error: "HTTP 410: the endpoint was switched off" }
  const wait = retryAfter === undefined ? null : retryAfterMillis(retryAfter, now)
  const error =
    status >= 300 && status < 400 ? `HTTP ${status}: redirects are not followed` : `HTTP ${status}`
  return { _tag: "Retry", status, error, retryAfter: wait }
}
