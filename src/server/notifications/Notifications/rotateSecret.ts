import { DateTime, Duration, Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import type { EndpointId, OrgId } from "../../../domain/Ids.ts"
import { generateSigningSecret } from "../../../domain/delivery/WebhookSignature.ts"
import { currentTime } from "../../store/currentTime.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { endpointPlace, lockSecretForUpdate, updateSecrets } from "./rows.ts"

/** How long the previous secret signs beside the new one. */
const ROTATION_OVERLAP = Duration.hours(24)

/**
 * Replaces an endpoint's signing secret within the caller's transaction and returns the new one; none if there is no such endpoint. The
 * previous secret signs beside it for 24 hours. After two rotations within that time only the newest two secrets sign.
 */
export const rotateSecret = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  clock: StoreClock["Service"],
  org_id: OrgId,
  endpoint_id: EndpointId
) {
  const sealed = yield* lockSecretForUpdate(sql, org_id, endpoint_id)
  if (Option.isNone(sealed)) return Option.none()
  const now = yield* clock.now
  const secret = yield* generateSigningSecret
  // A sealed value can be unsealed only in its own column, so the previous secret is unsealed and sealed for its new column.
  const old = yield* Effect.orDie(box.unseal(endpointPlace(org_id, endpoint_id, "secret"), sealed.value))
  yield* updateSecrets(sql, org_id, endpoint_id, {
    current: yield* box.seal(endpointPlace(org_id, endpoint_id, "secret"), secret),
    previous: yield* box.seal(endpointPlace(org_id, endpoint_id, "previous_secret"), old),
    previous_until: DateTime.addDuration(now, ROTATION_OVERLAP)
  })
  return Option.some(secret)
})

/** Clears previous secrets that no longer sign, at most `limit`. */
export const clearReplacedSecrets = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  limit: number
) => sql`
  UPDATE notification_endpoints p
  SET previous_secret = NULL, previous_secret_until = NULL
  FROM (
    SELECT org_id, endpoint_id
    FROM notification_endpoints
    WHERE previous_secret_until <= ${currentTime(sql, clock)}
    LIMIT ${limit}::int
  ) expired
  WHERE p.org_id = expired.org_id
    AND p.endpoint_id = expired.endpoint_id
    AND p.previous_secret_until <= ${currentTime(sql, clock)}
`
