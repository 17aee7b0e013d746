import { DateTime, Duration, Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import type { EndpointId, OrgId } from "../../../domain/Ids.ts"
import { generateSigningSecret } from "../../../domain/delivery/WebhookSignature.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { endpointPlace, lockSecretForUpdate, updateSecrets } from "./rows.ts"

/** How long the secret that was replaced goes on signing beside the new one. */
const OVERLAP = Duration.hours(24)

/**
 * Within the caller's transaction: gives an endpoint a new signing secret, and lets the one it had sign beside it for 24 hours. Of
 * two rotations within those the newest two secrets sign. Answers with the new one, if there is such an endpoint.
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
  // A sealed value opens only at its place, so the old one is sealed anew for where it goes.
  const old = yield* Effect.orDie(box.unseal(endpointPlace(org_id, endpoint_id, "secret"), sealed.value))
  yield* updateSecrets(sql, org_id, endpoint_id, {
    current: yield* box.seal(endpointPlace(org_id, endpoint_id, "secret"), secret),
    previous: yield* box.seal(endpointPlace(org_id, endpoint_id, "previous_secret"), old),
    previous_until: DateTime.addDuration(now, OVERLAP)
  })
  return Option.some(secret)
})

/** Forgets `limit` of the secrets that no longer sign, at most. */
export const clearReplacedSecrets = (sql: SqlClient.SqlClient, limit: number) => sql`
  UPDATE notification_endpoints p
  SET previous_secret = NULL, previous_secret_until = NULL
  FROM (
    SELECT org_id, endpoint_id
    FROM notification_endpoints
    WHERE previous_secret_until <= now()
    LIMIT ${limit}::int
  ) old
  WHERE p.org_id = old.org_id
    AND p.endpoint_id = old.endpoint_id
    AND p.previous_secret_until <= now()
`
