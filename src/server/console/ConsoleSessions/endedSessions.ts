import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import type { KeyRef } from "../../identity/KeyRef.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

/** The primary key of a session, and the API key that opened it. */
export interface SessionRef extends KeyRef {
  /** SHA-256 of the session's secret, in hexadecimal. */
  readonly digest: string
}

const endedRows = rowsOf(Schema.Struct({ digest: Schema.String }))

/**
 * Returns the digests of the expired, idle and signed-out sessions among `sessions`, in one statement. It does not look at keys, because
 * `Revocations` ends the sessions of ended keys.
 */
export const findEndedSessions = (
  sql: SqlClient.SqlClient,
  sessions: ReadonlyArray<{ readonly org_id: OrgId; readonly digest: string }>,
  now: Timestamp,
  idleSince: Date
) =>
  endedRows
    .all(
      sql`
        SELECT open.digest
        FROM unnest(
          ${textArray(sessions.map(({ org_id }) => org_id))},
          ${textArray(sessions.map(({ digest }) => digest))}
        ) AS open (org_id, digest)
          LEFT JOIN console_sessions AS session
            ON session.org_id = open.org_id AND session.digest = decode(open.digest, 'hex')
        WHERE session.digest IS NULL
          OR session.expires_at <= ${toDate(now)}::timestamptz
          OR session.last_active_at <= ${idleSince}::timestamptz
      `
    )
    .pipe(Effect.map((rows) => rows.map(({ digest }) => digest)))
