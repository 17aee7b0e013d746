import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { type OrgId, SessionId, TaskId } from "../../domain/Ids.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { makeStatementBatcher } from "../store/makeStatementBatcher.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"

/**
 * The immutable facts of a session while it exists. A replica may cache it even after the session was deleted: the
 * statement that writes a step looks the session up, so a step of a deleted session gets 404.
 */
export interface SessionFact {
  readonly org_id: OrgId
  readonly task_id: TaskId | null
}

/** Sessions that one replica caches. An entry takes some 200 bytes. */
const MAX_CACHED = 20_000

/** Sessions that one statement looks up. */
const MAX_BATCH = 64

/** The facts of sessions, cached. */
export class SessionFacts extends Context.Service<
  SessionFacts,
  {
    /** The facts of the organization's session; undefined if there is none. */
    readonly find: (org_id: OrgId, session_id: SessionId) => Effect.Effect<SessionFact | undefined>
    /** Caches the facts of a session that was just created. */
    readonly add: (session_id: SessionId, fact: SessionFact) => void
  }
>()("countersign/server/approvals/SessionFacts") {
  static readonly layer = Layer.effect(
    SessionFacts,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const cache = new LruCache<SessionFact>({ entries: MAX_CACHED, weight: MAX_CACHED })

      const read = yield* makeStatementBatcher({
        maxBatch: MAX_BATCH,
        run: Effect.fnUntraced(function* (wanted: ReadonlyArray<SessionKey>) {
          const rows = yield* factRows.all(sql`
            SELECT s.org_id, s.session_id, s.task_id
            FROM unnest(
              ${textArray(wanted.map(({ org_id }) => org_id))}::text[],
              ${textArray(wanted.map(({ session_id }) => session_id))}::text[]
            ) AS wanted (org_id, session_id)
            JOIN agent_sessions s USING (org_id, session_id)
          `)
          const found = new Map(rows.map((row) => [`${row.org_id} ${row.session_id}`, row.task_id]))
          return wanted.map(({ org_id, session_id }): { readonly fact: SessionFact | undefined } => {
            const task_id = found.get(`${org_id} ${session_id}`)
            return { fact: task_id === undefined ? undefined : { org_id, task_id } }
          })
        })
      })

      const add = (session_id: SessionId, fact: SessionFact): void => cache.set(session_id, fact, 1)

      return SessionFacts.of({
        add,
        find: (org_id, session_id) => {
          const cached = cache.get(session_id)
          if (cached !== undefined) return Effect.succeed(cached.org_id === org_id ? cached : undefined)
          return Effect.map(Effect.orDie(read({ org_id, session_id })), ({ fact }) => {
            if (fact !== undefined) add(session_id, fact)
            return fact
          })
        }
      })
    })
  )
}

interface SessionKey {
  readonly org_id: OrgId
  readonly session_id: SessionId
}

const factRows = rowsOf(
  Schema.Struct({ org_id: Schema.String, session_id: SessionId, task_id: Schema.NullOr(TaskId) })
)
