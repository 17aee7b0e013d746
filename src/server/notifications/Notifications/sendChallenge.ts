import { Clock, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { notFound } from "../../../api/notFound.ts"
import { EndpointDisabled, RateLimited } from "../../../api/Problems.ts"
import {
  answersChallenge,
  challengeBody,
  generateChallenge,
  MAX_ANSWER_BYTES
} from "../../../domain/delivery/EndpointChallenge.ts"
import { signatureHeaders } from "../../../domain/delivery/WebhookSignature.ts"
import { addressNetwork } from "../../../domain/network/addressNetwork.ts"
import { type EndpointId, EventId, type OrgId } from "../../../domain/Ids.ts"
import { VERSION } from "../../../domain/Version.ts"
import type { Delivery } from "../../delivery/Delivery.ts"
import type { Egress } from "../../egress/Egress.ts"
import { currentTime } from "../../store/currentTime.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { makeUnsealedEndpoints, SealedEndpoint } from "./UnsealedEndpoints.ts"
import { WEBHOOK } from "./WebhookChannel.ts"

/** Timeout in milliseconds, the same as of a delivery. */
const DEADLINE_MILLIS = 5_000

/** Dependencies of {@link sendChallenge}. */
export interface ChallengeDeps {
  readonly sql: SqlClient.SqlClient
  readonly delivery: Delivery["Service"]
  readonly egress: Egress["Service"]
  readonly clock: StoreClock["Service"]
  readonly endpoints: ReturnType<typeof makeUnsealedEndpoints>
}

/**
 * Sends an endpoint a signed challenge, once, and returns why it did not answer; null if it did. The reason contains no
 * text of the receiver. Nothing is sent to a disabled endpoint, nor beyond the rates of deliveries to its host and network.
 */
export const sendChallenge = Effect.fnUntraced(function* (
  { clock, delivery, egress, endpoints, sql }: ChallengeDeps,
  org_id: OrgId,
  id: EndpointId
) {
  const [sealed] = yield* Effect.orDie(sql<SealedEndpoint & { readonly active: boolean }>`
    SELECT
      url, secret, xmin::text AS version, active, public_signature AS "publicSignature",
      CASE WHEN previous_secret_until > ${currentTime(sql, clock)} THEN previous_secret END AS "previousSecret"
    FROM notification_endpoints
    WHERE org_id = ${org_id}
      AND endpoint_id = ${id}
  `)
  if (sealed === undefined) return yield* notFound("endpoint")
  if (!sealed.active) {
    return yield* new EndpointDisabled({
      detail: "The endpoint is disabled. Enable it with `active: true`, then verify it."
    })
  }
  const { host, keys, url } = yield* Effect.orDie(endpoints.unseal({ org_id, destination_id: id }, sealed))
  if (!delivery.tryTakeRequest(WEBHOOK, org_id, "receiver", host)) return yield* rateReached
  const eventId = yield* EventId.generate
  const challenge = yield* generateChallenge
  const body = Buffer.from(challengeBody({ id: eventId, org_id, occurred_at: yield* clock.now, challenge }))
  // Receivers compare the time of a signature with their own clock.
  const now = yield* Clock.currentTimeMillis
  const sent = egress.send({
    organization: org_id,
    pool: id,
    url,
    method: "POST",
    headers: {
      "content-type": "application/json",
      "user-agent": `Countersign/${VERSION}`,
      ...signatureHeaders(keys, {
        eventId,
        eventType: "verification",
        timestamp: Math.floor(now / 1000),
        body
      })
    },
    body,
    timeout: DEADLINE_MILLIS,
    maxResponseBytes: MAX_ANSWER_BYTES,
    admit: (address) => delivery.tryTakeRequest(WEBHOOK, org_id, "network", addressNetwork(address))
  })
  return yield* Effect.matchEffect(sent, {
    onFailure: ({ phrase, reason }) => (reason === "HeldBack" ? rateReached : Effect.succeed(phrase)),
    onSuccess: ({ body: answer, complete, status }) =>
      Effect.succeed(
        status < 200 || status > 299
          ? `HTTP ${status}`
          : complete && answersChallenge(answer, challenge)
            ? null
            : `HTTP ${status}, but the response's body does not contain the challenge`
      )
  })
})

/** The endpoint's host or network gets as many requests as its rates allow. */
const rateReached = Effect.fail(
  new RateLimited({
    detail:
      "The endpoint's host or its network receives as many requests as its rate limits allow. Retry shortly.",
    retry_after_seconds: 1
  })
)
