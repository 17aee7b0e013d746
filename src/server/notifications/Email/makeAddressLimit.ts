import { Effect } from "effect"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { rateLimitWithin } from "../../../domain/identity/RateLimit.ts"
import { makeTokenBuckets } from "../../admission/TokenBuckets.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { LimitUse } from "../../observability/LimitUse.ts"

const HOUR_MILLIS = 3_600_000

/**
 * Limits emails of an organization to each address: unless addresses must be verified, a key can name anyone's address,
 * and approvals can be requested at any rate. Organizations do not share the limit, or one could keep another's emails from
 * an address. Only emails that the mail server accepted count. One replica sends all email, so its count is that of the
 * installation, until another replica takes over.
 */
export const makeAddressLimit = (perHour: number, use: LimitUse["Service"]) => {
  const buckets = makeTokenBuckets(rateLimitWithin(perHour, HOUR_MILLIS))
  const refused = Effect.succeed<AttemptOutcome>({
    _tag: "Refused",
    error: `more than ${perHour} emails to this address within an hour`
  })

  return (
    org_id: OrgId,
    address: string,
    send: Effect.Effect<AttemptOutcome>
  ): Effect.Effect<AttemptOutcome> =>
    perHour === 0
      ? send
      : Effect.flatMap(monotonicNow, (now) => {
          const name = `${org_id} ${address.toLowerCase()}`
          const { allowed, remaining } = buckets.take(name, now)
          if (!allowed) {
            use.refused("address_mails")
            return refused
          }
          use.used("address_mails", 1 - remaining / perHour)
          const giveBack = Effect.map(monotonicNow, (at) => buckets.charge(name, -1, at))
          return send.pipe(
            Effect.tap((outcome) => (outcome._tag === "Delivered" ? Effect.void : giveBack)),
            Effect.onInterrupt(() => giveBack)
          )
        })
}
