import type { OrgId } from "../../../domain/Ids.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import type { PreparedDelivery } from "../../delivery/Delivery.ts"

/** Index entries that a statement may count for one organization: some 2 ms of processor time. */
const MAX_COUNTED = 20_000

/** Destinations of a write that may always share a statement: their queues are limited, so they take a few milliseconds to count. */
const FEW_DESTINATIONS = 2

/** How long an organization's writes are not shared, in milliseconds. */
const PAUSE_MILLIS = 5_000

const MAX_ORGANIZATIONS = 10_000

/**
 * Organizations whose queues are so long that counting them would delay the requests of others in the same statement: each statement counts
 * the queues of its destinations, up to their limits. The writes of such an organization use transactions of its own for a while, which are
 * limited per organization.
 */
export const makeLongQueues = (now: () => number) => {
  const pausedUntil = new LruCache<number>({ entries: MAX_ORGANIZATIONS, weight: MAX_ORGANIZATIONS })
  return {
    /** Whether a write with these deliveries should not share a statement now. */
    isPaused: (org_id: OrgId, deliveries: ReadonlyArray<PreparedDelivery>): boolean =>
      deliveries.length > FEW_DESTINATIONS && (pausedUntil.get(org_id) ?? 0) > now(),
    /** Notes the queue lengths that a statement has counted, by destination. */
    note: (deliveries: ReadonlyArray<PreparedDelivery>, counts: ReadonlyMap<string, number>): void => {
      const byDestination = new Map(
        deliveries.map((one) => [
          one.destination_id,
          { org_id: one.org_id, count: counts.get(one.delivery_id) ?? 0 }
        ])
      )
      const byOrganization = new Map<OrgId, number>()
      for (const { count, org_id } of byDestination.values())
        byOrganization.set(org_id, (byOrganization.get(org_id) ?? 0) + count)
      for (const [org_id, count] of byOrganization) {
        if (count > MAX_COUNTED) pausedUntil.set(org_id, now() + PAUSE_MILLIS, 1)
      }
    },
    /** Notes a write that was refused because a queue is near its limit: the queues are as long, and were counted for nothing. */
    noteQueueNearLimit: (org_id: OrgId): void => pausedUntil.set(org_id, now() + PAUSE_MILLIS, 1)
  }
}
