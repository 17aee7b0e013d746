/** An approval event and its webhook deliveries, prepared before the statement that writes them beside other rows. */
import type { Statement, SqlClient } from "effect/sql"
import type { ApprovalEventType } from "../../domain/approvals/ApprovalEvent.ts"
import type { EndpointId, EventId, OrgId } from "../../domain/Ids.ts"
import type { PreparedDelivery } from "../delivery/Delivery.ts"
import { textArray } from "../store/pgArrays.ts"

/**
 * An event for the endpoints that subscribe to it, by this replica's cache. The statement that writes it must check `endpoints` against
 * `subscriptions`, because another replica may have changed them since.
 */
export interface PreparedEvent {
  readonly org_id: OrgId
  readonly type: ApprovalEventType
  /** The active endpoints that subscribe to the type, as `endpointVersions` writes them. */
  readonly endpoints: string
  readonly event_id: EventId
  /** The exact bytes that are signed and sent. */
  readonly body: Uint8Array
  readonly deliveries: ReadonlyArray<PreparedDelivery>
  /**
   * Whether endpoints get events only after they have answered a challenge. A setting of the installation, the same for
   * all events.
   */
  readonly onlyVerified: boolean
}

/** Endpoints in order of id, each with the version of its row: `nep_…@731,nep_…@812`. */
export const endpointVersions = (
  endpoints: ReadonlyArray<{ readonly endpoint_id: EndpointId; readonly version: string }>
): string => endpoints.map(({ endpoint_id, version }) => `${endpoint_id}@${version}`).join(",")

/**
 * CTE `subscriptions` (`org_id`, `type`, `endpoints`): the endpoints that subscribe to the type of each event now, in the form of
 * `PreparedEvent.endpoints`.
 */
export const subscriptions = (
  sql: SqlClient.SqlClient,
  events: ReadonlyArray<Pick<PreparedEvent, "org_id" | "type" | "onlyVerified">>
): Statement.Fragment => {
  const distinct = [...new Map(events.map((event) => [`${event.org_id} ${event.type}`, event])).values()]
  const verified = events.some(({ onlyVerified }) => onlyVerified)
    ? sql.literal("AND e.verified_at IS NOT NULL")
    : sql.literal("")
  return sql`
    subscriptions AS MATERIALIZED (
      SELECT
        wanted.org_id, wanted.type,
        coalesce(string_agg(e.endpoint_id || '@' || e.xmin::text, ',' ORDER BY e.endpoint_id), '') AS endpoints
      FROM unnest(
        ${textArray(distinct.map(({ org_id }) => org_id))}::text[],
        ${textArray(distinct.map(({ type }) => type))}::text[]
      ) AS wanted (org_id, type)
      LEFT JOIN notification_endpoints e ON e.org_id = wanted.org_id AND e.active ${verified} AND wanted.type = ANY (e.events)
      GROUP BY wanted.org_id, wanted.type
    )`
}
