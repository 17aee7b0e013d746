import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type KeyId, type OrgId, SessionId, StepId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

/** A session of a coding agent, of one API key. */
export interface CodingSession {
  readonly org_id: OrgId
  readonly key_id: KeyId
  /** The coding agent: `claude-code`. */
  readonly agent: string
  /** Its own ID of the session. */
  readonly coding_session: string
}

const sessionRows = rowsOf(Schema.Struct({ session_id: Schema.NullOr(SessionId), open: Schema.Boolean }))

const isSession = (sql: SqlClient.SqlClient, session: CodingSession) =>
  sql.and([
    sql`coding.org_id = ${session.org_id}`,
    sql`coding.key_id = ${session.key_id}`,
    sql`coding.agent = ${session.agent}`,
    sql`coding.coding_session = ${session.coding_session}`
  ])

/** The newest agent session of a coding agent's session; undefined if it has none. */
export const findCodingSession = (sql: SqlClient.SqlClient, session: CodingSession) =>
  sessionRows.first(sql`
    SELECT coding.session_id, (agent.session_id IS NOT NULL AND agent.closed_at IS NULL) AS open
    FROM coding_sessions AS coding
      LEFT JOIN agent_sessions AS agent USING (org_id, session_id)
    WHERE ${isSession(sql, session)}
  `)

/** Locks the row of a coding agent's session until the transaction ends, and creates it if there is none. */
export const lockCodingSession = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  session: CodingSession,
  now: Timestamp
) {
  yield* sql`
    INSERT INTO coding_sessions (org_id, key_id, agent, coding_session, created_at)
    VALUES (
      ${session.org_id}, ${session.key_id}, ${session.agent}, ${session.coding_session}, ${toDate(now)}
    )
    ON CONFLICT DO NOTHING
  `
  yield* sql`
    SELECT 1
    FROM coding_sessions AS coding
    WHERE ${isSession(sql, session)}
    FOR UPDATE
  `
})

/** Saves the agent session of a coding agent's session. */
export const saveCodingSession = (
  sql: SqlClient.SqlClient,
  session: CodingSession,
  session_id: SessionId
) => sql`
  UPDATE coding_sessions AS coding
  SET session_id = ${session_id}
  WHERE ${isSession(sql, session)}
`

/** An undecided call of a coding agent. */
export interface CodingCall {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly call_id: string
}

const stepRows = rowsOf(Schema.Struct({ step_id: StepId }))

/** The step of a call that waited before; undefined if it did not. */
export const findCallStep = (sql: SqlClient.SqlClient, { call_id, org_id, session_id }: CodingCall) =>
  stepRows.first(sql`
    SELECT step_id
    FROM coding_calls
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
      AND call_id = ${call_id}
  `)

/** Gives the oldest waiting step with this content to a call, which asks in place of the one before. Each is given once. */
export const takeWaitingStep = (
  sql: SqlClient.SqlClient,
  { call_id, org_id, session_id }: CodingCall,
  digest: string
) =>
  stepRows.first(sql`
    UPDATE coding_calls
    SET call_id = ${call_id}, waiting = false, deferred = false
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
      AND call_id = (
        SELECT call_id
        FROM coding_calls
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
          AND content_digest = ${digest}
          AND waiting
        ORDER BY call_id
        LIMIT 1
        FOR UPDATE SKIP LOCKED
      )
    RETURNING step_id
  `)

/** Notes the step of a call, and whether it waits for a person without a request that waits with it. */
export const saveCall = (
  sql: SqlClient.SqlClient,
  { call_id, org_id, session_id }: CodingCall,
  step_id: StepId,
  digest: string,
  waiting: boolean
) => sql`
  INSERT INTO coding_calls (org_id, session_id, call_id, step_id, content_digest, waiting)
  VALUES (${org_id}, ${session_id}, ${call_id}, ${step_id}, ${digest}, ${waiting})
  ON CONFLICT (org_id, session_id, call_id) DO UPDATE
  SET step_id = excluded.step_id,
    content_digest = excluded.content_digest,
    waiting = excluded.waiting,
    deferred = coding_calls.deferred AND excluded.waiting
`

/** In place of the ID of a call, in the row of an interrupted step: no saved ID of a call has a line break. */
const interruptedKey = (step_id: string): string => `interrupted\n${step_id}`

/** The step of a call. */
interface CallStep extends Pick<CodingCall, "org_id" | "session_id"> {
  readonly step_id: string
}

/** Notes that the call of an allowed step was interrupted. The next call with the same content goes on with a step that waits. */
export const saveInterrupted = (sql: SqlClient.SqlClient, { org_id, session_id, step_id }: CallStep) => sql`
  INSERT INTO coding_calls (org_id, session_id, call_id, step_id, content_digest, waiting)
  SELECT org_id, session_id, ${interruptedKey(step_id)}::text, step_id, '', false
  FROM governed_steps
  WHERE org_id = ${org_id}
    AND session_id = ${session_id}
    AND step_id = ${step_id}
    AND coalesce(last_decision, decision) = 'allow'
  ON CONFLICT DO NOTHING
`

/** Whether the call of a step was interrupted. */
export const wasInterrupted = (sql: SqlClient.SqlClient, { step_id, ...session }: CallStep) =>
  Effect.map(
    findCallStep(sql, { ...session, call_id: interruptedKey(step_id) }),
    (found) => found !== undefined
  )

const deferredRows = rowsOf(Schema.Struct({ deferred: Schema.Boolean }))

/**
 * Notes that the run ends at a call that was saved. False if it ends at another one: Claude Code resumes one call of a turn. The session's row
 * is locked.
 */
export const deferCall = (sql: SqlClient.SqlClient, { call_id, org_id, session_id }: CodingCall) =>
  Effect.map(
    deferredRows.first(sql`
      UPDATE coding_calls
      SET deferred = NOT EXISTS (
        SELECT 1
        FROM coding_calls AS other
        WHERE other.org_id = ${org_id}
          AND other.session_id = ${session_id}
          AND other.call_id <> ${call_id}
          AND other.deferred
      )
      WHERE org_id = ${org_id}
        AND session_id = ${session_id}
        AND call_id = ${call_id}
      RETURNING deferred
    `),
    (row) => row?.deferred ?? false
  )

/** Forgets the call at which a run ended, after its end. */
export const forgetDeferred = (sql: SqlClient.SqlClient, org_id: OrgId, session_id: SessionId) => sql`
  UPDATE coding_calls
  SET deferred = false
  WHERE org_id = ${org_id}
    AND session_id = ${session_id}
    AND deferred
`

const waitingRows = rowsOf(Schema.Struct({ waits: Schema.Boolean }))

/** Whether a call of the session waits for a person, or for the next call with its content, which gets the approval. */
export const hasWaitingCalls = (sql: SqlClient.SqlClient, org_id: OrgId, session_id: SessionId) =>
  Effect.map(
    waitingRows.first(sql`
      SELECT EXISTS (
        SELECT 1
        FROM coding_calls
          JOIN governed_steps USING (org_id, session_id, step_id)
          JOIN approvals USING (org_id, approval_id)
        WHERE org_id = ${org_id}
          AND coding_calls.session_id = ${session_id}
          AND waiting
          AND (status = 'pending' OR outcome = 'allow')
      ) AS waits
    `),
    (row) => row?.waits ?? false
  )
