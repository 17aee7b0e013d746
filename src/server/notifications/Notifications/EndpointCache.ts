import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { approvalEventTypes } from "../../../domain/approvals/ApprovalEvent.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { findSubscribers, type Subscriber } from "./rows.ts"

/** Organizations whose endpoints one replica caches, and endpoints in all of them together. */
const MAX_ORGANIZATIONS = 1_000
const MAX_ENDPOINTS = 10_000

/**
 * The active endpoints of organizations (the verified ones, with `onlyVerified`), as this replica last read them. They
 * may be stale: a statement that uses them checks them (`subscriptions` in `PreparedEvent.ts`), and a caller whose
 * check failed calls `invalidate`.
 */
export const makeEndpointCache = (sql: SqlClient.SqlClient, onlyVerified: boolean) => {
  const cache = new LruCache<ReadonlyArray<Subscriber>>({
    entries: MAX_ORGANIZATIONS,
    weight: MAX_ENDPOINTS
  })
  const read = Effect.fnUntraced(function* (org_id: OrgId) {
    const endpoints = yield* findSubscribers(sql, org_id, approvalEventTypes, onlyVerified)
    cache.set(org_id, endpoints, Math.max(1, endpoints.length))
    return endpoints
  }, Effect.orDie)
  return {
    /** In order of id. */
    activeEndpoints: (org_id: OrgId): Effect.Effect<ReadonlyArray<Subscriber>> => {
      const cached = cache.get(org_id)
      return cached === undefined ? read(org_id) : Effect.succeed(cached)
    },
    invalidate: (org_id: OrgId): void => void cache.delete(org_id)
  }
}
