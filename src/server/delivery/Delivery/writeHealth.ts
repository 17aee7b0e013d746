import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Health } from "../../../domain/delivery/Cooldown.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import { currentTime } from "../../store/currentTime.ts"
import { float8Array, int4Array, int8Array, textArray } from "../../store/pgArrays.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { Lane } from "./Lane.ts"

/**
 * Writes the health of lanes, fenced by epoch: lanes whose shard has another owner by now are skipped. Never waits for
 * a row lock (SKIP LOCKED): returns the keys of lanes whose row is locked and was not written. `org_id` is the organization of all lanes,
 * on a cluster. Its node locks the rows without a join, and the coordinator, which has the epochs, compares the rest.
 */
export const writeHealth = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  lanes: ReadonlyMap<Lane, Health>,
  org_id?: OrgId
): Effect.Effect<ReadonlySet<string>, SqlError.SqlError> => {
  const ofOrganization = org_id === undefined ? sql.literal("") : sql`AND d.org_id = ${org_id}`
  const list = [...lanes]
  const lockedRows =
    org_id === undefined
      ? sql.literal(`
        SELECT g.*
        FROM given g
        JOIN delivery_destinations d ON d.org_id = g.org_id AND d.destination_id = g.destination_id
        FOR UPDATE OF d SKIP LOCKED`)
      : sql`
        SELECT g.*
        FROM given g
        JOIN locked_rows USING (org_id, destination_id)`
  const rowsOfOrganization =
    org_id === undefined
      ? sql.literal("")
      : sql`locked_rows AS MATERIALIZED (
        SELECT org_id, destination_id
        FROM delivery_destinations
        WHERE org_id = ${org_id}
          AND destination_id = ANY(${textArray(list.map(([{ destination_id }]) => destination_id))}::text[])
        FOR UPDATE SKIP LOCKED
      ),`
  const now = monotonicMillis(clock.clock)
  return Effect.map(
    sql<{ readonly org_id: string; readonly destination_id: string }>`
      WITH given AS MATERIALIZED (
        SELECT
          l.org_id, l.destination_id, l.failures, l.round,
          CASE WHEN l.wait >= 0 THEN ${currentTime(sql, clock)} + l.wait * interval '1 millisecond' END AS until,
          ${currentTime(sql, clock)} AS at
        FROM unnest(
          ${int4Array(list.map(([lane]) => lane.shard))}::smallint[],
          ${int8Array(list.map(([lane]) => lane.owned.epoch))}::bigint[],
          ${textArray(list.map(([lane]) => lane.org_id))}::text[],
          ${textArray(list.map(([lane]) => lane.destination_id))}::text[],
          ${int4Array(list.map(([, health]) => health.failures))}::int[],
          ${int4Array(list.map(([, health]) => (health._tag === "Healthy" ? 0 : health.round)))}::int[],
          ${float8Array(list.map(([, health]) => (health._tag === "CoolingDown" ? Math.max(0, health.until - now) : -1)))}::float8[]
        ) AS l (shard, epoch, org_id, destination_id, failures, round, wait)
        JOIN delivery_shards s ON s.shard = l.shard AND s.epoch = l.epoch
      ), existing AS MATERIALIZED (
        SELECT d.org_id, d.destination_id
        FROM given g
        JOIN delivery_destinations d ON d.org_id = g.org_id AND d.destination_id = g.destination_id ${ofOrganization}
      ), ${rowsOfOrganization} locked AS MATERIALIZED (
        ${lockedRows}
      ), changed AS (
        UPDATE delivery_destinations d
        SET
          consecutive_failures = h.failures,
          cooldown_round = h.round,
          cooldown_until = h.until,
          -- Fewer failures than before: an attempt succeeded meanwhile.
          failing_since = CASE
            WHEN h.failures > 0 AND h.failures < d.consecutive_failures THEN h.at
            WHEN h.failures > 0 THEN coalesce(d.failing_since, h.at)
          END,
          outage_reported_at = CASE WHEN h.failures >= d.consecutive_failures THEN d.outage_reported_at END
        FROM locked h
        WHERE d.org_id = h.org_id
          AND d.destination_id = h.destination_id
          AND (d.consecutive_failures, d.cooldown_round, d.cooldown_until)
            IS DISTINCT FROM (h.failures, h.round, h.until)
          ${ofOrganization}
      ), added AS (
        INSERT INTO delivery_destinations
          (org_id, destination_id, consecutive_failures, cooldown_round, cooldown_until, failing_since)
        SELECT
          org_id, destination_id, failures, round, until, CASE WHEN failures > 0 THEN at END
        FROM given
        WHERE (org_id, destination_id) NOT IN (SELECT org_id, destination_id FROM existing)
        ORDER BY org_id, destination_id
        ON CONFLICT (org_id, destination_id) DO UPDATE
        SET
          consecutive_failures = EXCLUDED.consecutive_failures,
          cooldown_round = EXCLUDED.cooldown_round,
          cooldown_until = EXCLUDED.cooldown_until,
          failing_since = EXCLUDED.failing_since
      )
      SELECT org_id, destination_id FROM existing
      EXCEPT
      SELECT org_id, destination_id FROM locked
    `,
    (rows) => new Set(rows.map((row) => `${row.org_id}/${row.destination_id}`))
  )
}

/** Ends the stored cooldown of a destination: the next attempt is its probe. The owner of its shard may hold a newer state in memory. */
export const endStoredCooldown = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  org_id: string,
  destination_id: string
): Effect.Effect<void, SqlError.SqlError> =>
  Effect.asVoid(sql`
    UPDATE delivery_destinations
    SET cooldown_until = ${currentTime(sql, clock)}
    WHERE org_id = ${org_id}
      AND destination_id = ${destination_id}
      AND cooldown_until > ${currentTime(sql, clock)}
  `)
