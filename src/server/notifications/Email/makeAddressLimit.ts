import { Effect } from "effect"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { rateLimitWithin, takeToken } from "../../../domain/identity/RateLimit.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { LimitUse } from "../../observability/LimitUse.ts"

const HOUR_MILLIS = 3_600_000

/** Addresses whose emails are counted. */
const MAX_ADDRESSES = 100_000

/**
 * Limits emails of an organization to each address: unless addresses must be verified, a key can name anyone's address,
 * and approvals can be requested at any rate. Organizations do not share the limit, or one could keep another's emails from
 * an address. Only emails that the mail server accepted count. One replica sends all email, so its count is that of the
 * installation, until another replica takes over.
 */
export const makeAddressLimit = (perHour: number, use: (typeof LimitUse)["Service"]) => {
  const limit = rateLimitWithin(perHour, HOUR_MILLIS)
  const buckets = new LruCache<number>({ entries: MAX_ADDRESSES, weight: MAX_ADDRESSES })
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
          const { allowed, fullAt, remaining } = takeToken(limit, buckets.get(name) ?? now, now)
          if (!allowed) {
            use.refused("address_mails")
            return refused
          }
          use.used("address_mails", 1 - remaining / perHour)
          buckets.set(name, fullAt, 1)
          const giveBack = Effect.sync(() => {
            const current = buckets.get(name)
            if (current !== undefined) buckets.set(name, current - limit.intervalMillis, 1)
          })
          return send.pipe(
            Effect.tap((outcome) => (outcome._tag === "Delivered" ? Effect.void : giveBack)),
            Effect.onInterrupt(() => giveBack)
          )
        })
}
