import { Clock, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import {
  answersChallenge,
  challengeBody,
  generateChallenge,
  MAX_ANSWER_BYTES
} from "../../../domain/delivery/EndpointChallenge.ts"
import { signatureHeaders } from "../../../domain/delivery/WebhookSignature.ts"
import { type EndpointId, EventId, type OrgId } from "../../../domain/Ids.ts"
import { VERSION } from "../../../domain/Version.ts"
import type { Egress } from "../../egress/Egress.ts"
import { currentTime } from "../../store/currentTime.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { makeUnsealedEndpoints, SealedEndpoint } from "./UnsealedEndpoints.ts"

/** Timeout in milliseconds, the same as of a delivery. */
const DEADLINE_MILLIS = 5_000

/** Dependencies of {@link sendChallenge}. */
export interface ChallengeDeps {
  readonly sql: SqlClient.SqlClient
  readonly egress: Egress["Service"]
  readonly clock: StoreClock["Service"]
  readonly endpoints: ReturnType<typeof makeUnsealedEndpoints>
}

/**
 * Sends an endpoint a signed challenge, once, and returns why it did not answer; null if it did. Undefined: there is no
 * such endpoint. The reason contains no text of the receiver.
 */
export const sendChallenge = Effect.fnUntraced(function* (
  { clock, egress, endpoints, sql }: ChallengeDeps,
  org_id: OrgId,
  id: EndpointId
) {
  const [sealed] = yield* Effect.orDie(sql<SealedEndpoint>`
    SELECT
      url, secret, xmin::text AS version,
      CASE WHEN previous_secret_until > ${currentTime(sql, clock)} THEN previous_secret END AS "previousSecret"
    FROM notification_endpoints
    WHERE org_id = ${org_id}
      AND endpoint_id = ${id}
  `)
  if (sealed === undefined) return undefined
  const { keys, url } = yield* Effect.orDie(endpoints.unseal({ org_id, destination_id: id }, sealed))
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
    maxResponseBytes: MAX_ANSWER_BYTES
  })
  return yield* Effect.match(sent, {
    onFailure: ({ phrase }) => phrase,
    onSuccess: ({ body: answer, complete, status }) => {
      if (status < 200 || status > 299) return `HTTP ${status}`
      return complete && answersChallenge(answer, challenge)
        ? null
        : `HTTP ${status}, but the response's body does not contain the challenge`
    }
  })
})
