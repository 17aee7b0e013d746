import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { InsufficientScope, SessionOfAnotherKey } from "../../api/Problems.ts"
import type { Actor, Principal } from "../../domain/identity/Principal.ts"
import { KeyId, OrgId, SessionId, TaskId } from "../../domain/Ids.ts"
import { keyMakers } from "../identity/keyMakers.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { onlyOrganization } from "../store/onlyOrganization.ts"
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
  readonly created_by: Actor
  /** The keys that made that key. */
  readonly makers: ReadonlyArray<KeyId>
  readonly shared: boolean
}

/** Whether a session belongs to the caller's key: it created the session, or made the key that did, or was made by it. */
const isOwn = ({ actor, keyMakers }: Principal, session: SessionFact): boolean =>
  session.created_by.id === actor.id ||
  keyMakers.includes(session.created_by.id) ||
  session.makers.includes(actor.id)

/** Sessions that one replica caches. An entry takes some 400 bytes. */
const MAX_CACHED = 20_000

/** Sessions that one statement looks up. */
const MAX_BATCH = 64

/** The facts of sessions, cached. */
export class SessionFacts extends Context.Service<
  SessionFacts,
  {
    /** The facts of the organization's session; undefined if there is none. */
    readonly find: (org_id: OrgId, session_id: SessionId) => Effect.Effect<SessionFact | undefined>
    /**
     * Fails unless the caller may submit steps in the session: it is the caller's own, or shared. Returns whether it is the caller's own, as far
     * as it is known: a later read of the session finds that there is none.
     */
    readonly requireWritable: (
      principal: Principal,
      session_id: SessionId
    ) => Effect.Effect<boolean, SessionOfAnotherKey>
    /** Fails unless the caller may read the session: any with `sessions.read`, and otherwise one in which it may submit steps. */
    readonly requireReadable: (
      principal: Principal,
      session_id: SessionId
    ) => Effect.Effect<void, InsufficientScope>
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
        sql,
        maxBatch: MAX_BATCH,
        organizationOf: ({ org_id }: SessionKey) => org_id,
        run: Effect.fnUntraced(function* (
          wanted: ReadonlyArray<SessionKey>,
          organization: OrgId | undefined
        ) {
          const rows = yield* factRows.all(sql`
            SELECT s.org_id, s.session_id, s.task_id, s.created_by_id, s.created_by_name, s.shared,
              ${keyMakers(sql)} AS makers
            FROM unnest(
              ${textArray(wanted.map(({ org_id }) => org_id))}::text[],
              ${textArray(wanted.map(({ session_id }) => session_id))}::text[]
            ) AS wanted (org_id, session_id)
            JOIN agent_sessions s USING (org_id, session_id)
            LEFT JOIN api_keys ON api_keys.org_id = s.org_id AND api_keys.key_id = s.created_by_id
            WHERE true ${onlyOrganization(sql, "s.org_id", organization)}
          `)
          const found = new Map(
            rows.map(({ created_by_id, created_by_name, session_id, ...row }): [string, SessionFact] => [
              `${row.org_id} ${session_id}`,
              { ...row, created_by: { id: created_by_id, name: created_by_name } }
            ])
          )
          return wanted.map(({ org_id, session_id }) => ({ fact: found.get(`${org_id} ${session_id}`) }))
        })
      })

      const add = (session_id: SessionId, fact: SessionFact): void => cache.set(session_id, fact, 1)

      const find: SessionFacts["Service"]["find"] = (org_id, session_id) => {
        const cached = cache.get(session_id)
        if (cached !== undefined) return Effect.succeed(cached.org_id === org_id ? cached : undefined)
        return Effect.map(Effect.orDie(read({ org_id, session_id })), ({ fact }) => {
          if (fact !== undefined) add(session_id, fact)
          return fact
        })
      }

      return SessionFacts.of({
        add,
        find,
        requireWritable: (principal, session_id) =>
          Effect.flatMap(find(principal.org_id, session_id), (session) => {
            const own = session === undefined || isOwn(principal, session)
            return own || session.shared ? Effect.succeed(own) : Effect.fail(ofAnotherKey(session))
          }),
        requireReadable: (principal, session_id) =>
          principal.scopes.has("sessions.read")
            ? Effect.void
            : Effect.flatMap(find(principal.org_id, session_id), (session) =>
                // The same for a session that does not exist.
                session !== undefined && (session.shared || isOwn(principal, session))
                  ? Effect.void
                  : Effect.fail(notReadable)
              )
      })
    })
  )
}

interface SessionKey {
  readonly org_id: OrgId
  readonly session_id: SessionId
}

const factRows = rowsOf(
  Schema.Struct({
    org_id: OrgId,
    session_id: SessionId,
    task_id: Schema.NullOr(TaskId),
    created_by_id: KeyId,
    created_by_name: Schema.String,
    shared: Schema.Boolean,
    makers: Schema.Array(KeyId)
  })
)

const ofAnotherKey = ({ created_by: { id, name } }: SessionFact) =>
  new SessionOfAnotherKey({
    detail: `This session belongs to the API key "${name}" (${id}). Use that key or one that it made, or create sessions with \`"shared": true\`.`
  })

const notReadable = new InsufficientScope({
  detail: "Without the scope sessions.read, this key reads only sessions of its own.",
  required_scope: "sessions.read"
})
