import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { rowsOf } from "../store/rows.ts"
import { moveEnded } from "./fence.ts"
import { MoveRefused } from "./moveState.ts"

const reportRows = rowsOf(
  Schema.Struct({
    /** Running replicas that do not report, and so do not hold the organization's deliveries. */
    silent: Schema.Int,
    /** Requests, also of reads, and deliveries in progress. */
    in_flight: Schema.Int
  })
)

/** A report is current until it is this much older than the newest one. */
const REPORT_SECONDS = 5

/**
 * Reads the reports. `OrganizationMoves` writes them, and the delivery engine's heartbeats show which replicas run. Refused once another
 * command ended this move or began another one. `now()` would be the beginning of an import's transaction, in which replicas may have stopped.
 */
export const readReports = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { move_id, org_id }: { readonly move_id: string; readonly org_id: OrgId }
) {
  const reports = yield* reportRows.first(sql`
    WITH reports AS (
      SELECT
        count(*) FILTER (WHERE seen_at > newest - ${REPORT_SECONDS} * interval '1 second') AS replicas,
        sum(in_flight) AS in_flight
      FROM organization_move_replicas
        CROSS JOIN (
          SELECT max(seen_at) AS newest FROM organization_move_replicas WHERE org_id = ${org_id}
        ) AS newest
      WHERE org_id = ${org_id}
    )
    SELECT
      greatest(0, (SELECT count(*) FROM delivery_owners WHERE lease_until > clock_timestamp()) - replicas)::int AS silent,
      coalesce(in_flight, 0)::int AS in_flight
    FROM reports
    WHERE EXISTS (
      SELECT
      FROM organization_moves
      WHERE org_id = ${org_id}
        AND move_id = ${move_id}
        AND is_fenced
        -- In other states, replicas do not report.
        AND state IN ('frozen', 'importing')
    )
  `)
  return reports ?? (yield* moveEnded)
})

/** The refusal of a move while replicas do not report. */
export const silentReplicas = (silent: number): MoveRefused =>
  new MoveRefused({
    message:
      `${silent} of the running replicas of this installation do not take part in the move: they run an earlier release, or cannot reach the ` +
      "database. They would send the organization's deliveries meanwhile. Replace or stop them, then run this command again."
  })
