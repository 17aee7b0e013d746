import { Array as Arr, Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { NewAgentSession } from "../api/AgentSessions.ts"
import { Authorized } from "../api/Authorization.ts"
import type { PageRequest } from "../api/Pagination.ts"
import { NotFound } from "../api/Problems.ts"
import type { AgentSession } from "../domain/AgentSession.ts"
import { transition } from "../domain/ApprovalState.ts"
import { generateTraceId, KeyId, OrgId, SessionId, TaskId, TraceId } from "../domain/Ids.ts"
import { sessionClosed } from "../domain/SessionEvent.ts"
import { TimestampFromDate, toDate } from "../domain/Time.ts"
import { recordAll } from "./Approvals/record.ts"
import { pendingApprovals, stateOf } from "./Approvals/rows.ts"
import { atomic } from "./Database.ts"
import { Notifications } from "./Notifications.ts"
import { type Page, pageOf, rowsFor } from "./Page.ts"
import { appendEvents } from "./SessionEvents.ts"
import { Spans } from "./Spans.ts"
import { StoreClock } from "./StoreClock.ts"

/** Approvals that one set of statements expires when a session closes. */
const CLOSED_AT_ONCE = 500

/** Agent sessions: what steps, approvals and events belong to. */
export class Sessions extends Context.Service<
  Sessions,
  {
    readonly create: (
      input: NewAgentSession
    ) => Effect.Effect<AgentSession, never, Authorized<"sessions.write">>
    readonly list: (
      request: PageRequest<SessionId>
    ) => Effect.Effect<Page<AgentSession, SessionId>, never, Authorized<"sessions.read">>
    readonly get: (id: SessionId) => Effect.Effect<AgentSession, NotFound, Authorized<"sessions.read">>
    /** Ends a session: what still waits for a person expires, rejected, with nobody named. Closing again changes nothing. */
    readonly close: (id: SessionId) => Effect.Effect<AgentSession, NotFound, Authorized<"sessions.write">>
  }
>()("countersign/server/Sessions") {
  static readonly layer = Layer.effect(
    Sessions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const notifications = yield* Notifications
      const spans = yield* Spans

      const find = Effect.fnUntraced(function* (
        org_id: OrgId,
        id: SessionId,
        lock: "" | "FOR NO KEY UPDATE"
      ) {
        const rows = yield* sql`
          SELECT ${sql.literal(columns)}
          FROM agent_sessions
          WHERE org_id = ${org_id}
            AND session_id = ${id}
          ${sql.literal(lock)}
        `.pipe(Effect.flatMap(decodeRows), Effect.orDie)
        return rows[0] === undefined ? yield* noSession : toSession(rows[0])
      })

      return Sessions.of({
        // One statement, and the whole answer known before it: nothing is read back.
        create: Effect.fnUntraced(function* (input) {
          const { org_id, actor } = yield* Authorized("sessions.write")
          const now = yield* clock.now
          const session: AgentSession = {
            session_id: yield* SessionId.generate,
            task_id: input.task_id ?? null,
            trace_id: yield* generateTraceId,
            metadata: input.metadata ?? {},
            status: "open",
            created_at: now,
            created_by: actor,
            closed_at: null
          }
          yield* sql`
            INSERT INTO agent_sessions
              (org_id, session_id, task_id, trace_id, metadata, created_at, created_by_id, created_by_name)
            VALUES (
              ${org_id}, ${session.session_id}, ${session.task_id}, ${session.trace_id},
              ${JSON.stringify(session.metadata)}, ${toDate(now)}, ${actor.id}, ${actor.name}
            )
          `.pipe(Effect.orDie)
          return session
        }),
        list: Effect.fn("Sessions.list")(function* (request) {
          const { org_id } = yield* Authorized("sessions.read")
          const rows = yield* sql`
            SELECT ${sql.literal(columns)}
            FROM agent_sessions
            WHERE org_id = ${org_id}
              ${request.cursor === undefined ? sql.literal("") : sql`AND session_id < ${request.cursor}`}
            ORDER BY session_id DESC
            LIMIT ${rowsFor(request)}
          `
          return pageOf(request, (yield* decodeRows(rows)).map(toSession), (session) => session.session_id)
        }, Effect.orDie),
        get: Effect.fn("Sessions.get")(function* (id) {
          const { org_id } = yield* Authorized("sessions.read")
          return yield* find(org_id, id, "")
        }),
        close: Effect.fn("Sessions.close")(function* (id) {
          const { org_id } = yield* Authorized("sessions.write")
          return yield* atomically(
            Effect.gen(function* () {
              const session = yield* find(org_id, id, "FOR NO KEY UPDATE")
              if (session.status === "closed") return session
              const now = yield* clock.now
              for (;;) {
                const moving = (yield* pendingApprovals(sql, org_id, id, CLOSED_AT_ONCE)).flatMap((row) => {
                  const { moves } = transition(stateOf(row), { _tag: "CloseSession" }, now)
                  return Arr.isReadonlyArrayNonEmpty(moves) ? [{ row, moves }] : []
                })
                if (!Arr.isArrayNonEmpty(moving)) break
                yield* recordAll({ notifications, spans, sql }, moving, now)
              }
              yield* sql`
                UPDATE agent_sessions
                SET closed_at = ${toDate(now)}
                WHERE org_id = ${org_id}
                  AND session_id = ${id}
              `
              yield* appendEvents(sql, [{ org_id, session_id: id, events: [sessionClosed] }], now)
              return { ...session, status: "closed" as const, closed_at: now }
            })
          )
        })
      })
    })
  )
}

/** What an unknown session is answered with, another organization's included. */
export const noSession = Effect.fail(
  new NotFound({ detail: "There is no such session in this organization" })
)

const columns =
  "org_id, session_id, task_id, trace_id, metadata, created_at, created_by_id, created_by_name, closed_at"

const SessionRow = Schema.Struct({
  org_id: OrgId,
  session_id: SessionId,
  task_id: Schema.NullOr(TaskId),
  trace_id: TraceId,
  metadata: Schema.Record(Schema.String, Schema.Json),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  closed_at: Schema.NullOr(TimestampFromDate)
})

const decodeRows = Schema.decodeUnknownEffect(Schema.Array(SessionRow))

const toSession = (row: typeof SessionRow.Type): AgentSession => ({
  session_id: row.session_id,
  task_id: row.task_id,
  trace_id: row.trace_id,
  metadata: row.metadata,
  status: row.closed_at === null ? "open" : "closed",
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name },
  closed_at: row.closed_at
})
