import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { textArray } from "../../store/pgArrays.ts"

/** A session as the store keys it: the digest of its secret, in hexadecimal. */
export interface SessionRow {
  readonly org_id: OrgId
  readonly digest: string
}

/** Sessions of this process on which something open hangs: streams, which outlast the request that began them. */
export const makeWatch = () => {
  const watched = new Map<string, { readonly session: SessionRow; readonly ends: Set<() => void> }>()
  return {
    /** Waits until the session is ended here. */
    ended: (session: SessionRow): Effect.Effect<void> =>
      Effect.callback((resume) => {
        const { ends } = watched.get(session.digest) ?? { ends: new Set<() => void>() }
        watched.set(session.digest, { session, ends })
        const end = () => resume(Effect.void)
        ends.add(end)
        return Effect.sync(() => {
          ends.delete(end)
          if (ends.size === 0 && watched.get(session.digest)?.ends === ends) watched.delete(session.digest)
        })
      }),
    end: (digest: string): void => {
      const ends = watched.get(digest)?.ends
      watched.delete(digest)
      ends?.forEach((end) => end())
    },
    sessions: (): ReadonlyArray<SessionRow> => [...watched.values()].map(({ session }) => session)
  }
}

const decodeOver = Schema.decodeUnknownEffect(Schema.Array(Schema.Struct({ digest: Schema.String })))

/** Of these sessions those that are over: signed out, run out, or their key revoked, expired or gone. One statement for all. */
export const sessionsOver = (sql: SqlClient.SqlClient, sessions: ReadonlyArray<SessionRow>, now: Timestamp) =>
  sql`
    SELECT held.digest
    FROM unnest(
      ${textArray(sessions.map(({ org_id }) => org_id))},
      ${textArray(sessions.map(({ digest }) => digest))}
    ) AS held (org_id, digest)
      LEFT JOIN console_sessions AS session
        ON session.org_id = held.org_id AND session.digest = decode(held.digest, 'hex')
      LEFT JOIN api_keys AS key ON key.org_id = session.org_id AND key.key_id = session.key_id
    WHERE key.key_id IS NULL
      OR session.expires_at <= ${toDate(now)}::timestamptz
      OR key.revoked_at IS NOT NULL
      OR key.expires_at <= ${toDate(now)}::timestamptz
  `.pipe(
    Effect.flatMap(decodeOver),
    Effect.map((rows) => rows.map(({ digest }) => digest))
  )
