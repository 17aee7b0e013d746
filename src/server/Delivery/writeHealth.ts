import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Health } from "../../domain/Cooldown.ts"
import { floats, ints, texts } from "./Columns.ts"
import type { Lane } from "./Lane.ts"

/** Writes the health of lanes. A healthy destination whose deliveries arrive is never written. */
export const writeHealth = (
  sql: SqlClient.SqlClient,
  lanes: ReadonlyMap<Lane, Health>,
  now: number
): Effect.Effect<void, SqlError.SqlError> => {
  const sorted = [...lanes].toSorted(([a], [b]) => (a.key < b.key ? -1 : 1))
  return Effect.asVoid(
    sql`
      INSERT INTO delivery_destinations AS d
        (org_id, destination_id, consecutive_failures, cooldown_round, cooldown_until)
      SELECT
        org_id, destination_id, failures, round,
        CASE WHEN wait >= 0 THEN statement_timestamp() + wait * interval '1 millisecond' END
      FROM unnest(
        ${texts(sorted.map(([lane]) => lane.org_id))}::text[],
        ${texts(sorted.map(([lane]) => lane.destination_id))}::text[],
        ${ints(sorted.map(([, health]) => health.failures))}::int[],
        ${ints(sorted.map(([, health]) => (health._tag === "Open" ? 0 : health.round)))}::int[],
        ${floats(sorted.map(([, health]) => (health._tag === "Cooling" ? Math.max(0, health.until - now) : -1)))}::float8[]
      ) AS l (org_id, destination_id, failures, round, wait)
      ON CONFLICT (org_id, destination_id) DO UPDATE
      SET
        consecutive_failures = EXCLUDED.consecutive_failures,
        cooldown_round = EXCLUDED.cooldown_round,
        cooldown_until = EXCLUDED.cooldown_until
      WHERE (d.consecutive_failures, d.cooldown_round, d.cooldown_until)
        IS DISTINCT FROM (EXCLUDED.consecutive_failures, EXCLUDED.cooldown_round, EXCLUDED.cooldown_until)
    `
  )
}
