/** The execution of a claimed step as columns of `governed_steps`. */
import { Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { ExecutionFilter } from "../../api/Executions.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { OutcomeStatus, type StepOutcome } from "../../domain/approvals/AgentSession.ts"
import {
  type Execution,
  type ExecutionRecord,
  ExecutionState,
  idempotencyKeyOf,
  isLate,
  Resolution
} from "../../domain/approvals/Execution.ts"
import { ClaimId, OrgId, SessionId, StepId, TaskId } from "../../domain/Ids.ts"
import { Actor } from "../../domain/identity/Principal.ts"
import { JsonValue } from "../../domain/json/JsonValue.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../domain/Time.ts"
import { int4Array, textArray, timestamptzArray } from "../store/pgArrays.ts"
import { pageWithinBytes, toPageWithinBytes } from "../store/Pagination.ts"
import { rowsOf } from "../store/rows.ts"
import type { SessionKey } from "./SessionStream/Subscription.ts"
import type { StepKey } from "./SessionWriter/findSavedSteps.ts"

/** A point in time as milliseconds since the Unix epoch, in JSON. */
const TimestampFromMillis = Schema.DateTimeUtcFromMillis

/** The JSON of `executionJson`. */
export const ExecutionJson = Schema.Struct({
  state: ExecutionState,
  claim_id: ClaimId,
  attempt: Schema.Int,
  claimed_at: TimestampFromMillis,
  claimed_by: Actor,
  expires_at: TimestampFromMillis,
  request: Schema.NullOr(Schema.String),
  unknown_at: Schema.NullOr(TimestampFromMillis),
  resolution: Schema.NullOr(
    Schema.Struct({
      resolution: Resolution,
      resolved_at: TimestampFromMillis,
      resolved_by: Actor,
      comment: Schema.NullOr(Schema.String)
    })
  )
})

/** SQL of a time in milliseconds since the Unix epoch. */
export const millis = (column: string) => `(extract(epoch FROM ${column}) * 1000)::float8`

/** An SQL expression for an `ExecutionJson` over the table `step`; null: the step is not claimed. */
export const executionJson = `CASE WHEN step.claim_id IS NOT NULL THEN json_build_object(
    'state', step.execution,
    'claim_id', step.claim_id,
    'attempt', step.attempt,
    'claimed_at', ${millis("step.claimed_at")},
    'claimed_by', json_build_object('id', step.claimed_by_id, 'name', step.claimed_by_name),
    'expires_at', ${millis("step.claim_expires_at")},
    'request', step.claim_request,
    'unknown_at', ${millis("step.unknown_at")},
    'resolution', CASE WHEN step.resolution IS NOT NULL THEN json_build_object(
      'resolution', step.resolution,
      'resolved_at', ${millis("step.resolved_at")},
      'resolved_by', json_build_object('id', step.resolved_by_id, 'name', step.resolved_by_name),
      'comment', step.resolution_comment
    ) END
  ) END`

/** The columns of an execution, in the order of `executionArrays`. */
const columns = [
  "claim_id",
  "execution",
  "attempt",
  "claimed_at",
  "claimed_by_id",
  "claimed_by_name",
  "claim_expires_at",
  "claim_request",
  "unknown_at",
  "resolution",
  "resolved_at",
  "resolved_by_id",
  "resolved_by_name",
  "resolution_comment"
]

/** The columns of `executionArrays`, for the list of an `unnest`. */
export const executionColumns = columns.join(", ")

/** Assigns the columns from a table of an `unnest`. */
export const assignExecution = columns.map((column) => `${column} = n.${column}`).join(", ")

/** A step whose execution changes; null: it is not claimed. */
export interface ExecutionChange {
  readonly from: ExecutionRecord | null
  readonly to: ExecutionRecord | null
}

/** The new executions as arrays, one for each of `executionColumns`. */
export const executionArrays = (
  sql: SqlClient.SqlClient,
  changes: ReadonlyArray<ExecutionChange>
): Statement.Fragment => {
  const to = changes.map((change) => change.to)
  return sql`
    ${textArray(to.map((one) => one?.claim_id ?? null))}::text[],
    ${textArray(to.map((one) => one?.state ?? null))}::text[],
    ${int4Array(to.map((one) => one?.attempt ?? null))}::int[],
    ${timestamptzArray(to.map((one) => one?.claimed_at ?? null))}::timestamptz[],
    ${textArray(to.map((one) => one?.claimed_by.id ?? null))}::text[],
    ${textArray(to.map((one) => one?.claimed_by.name ?? null))}::text[],
    ${timestamptzArray(to.map((one) => one?.expires_at ?? null))}::timestamptz[],
    ${textArray(to.map((one) => one?.request ?? null))}::text[],
    ${timestamptzArray(to.map((one) => one?.unknown_at ?? null))}::timestamptz[],
    ${textArray(to.map((one) => one?.resolution?.resolution ?? null))}::text[],
    ${timestamptzArray(to.map((one) => one?.resolution?.resolved_at ?? null))}::timestamptz[],
    ${textArray(to.map((one) => one?.resolution?.resolved_by.id ?? null))}::text[],
    ${textArray(to.map((one) => one?.resolution?.resolved_by.name ?? null))}::text[],
    ${textArray(to.map((one) => one?.resolution?.comment ?? null))}::text[]`
}

/** The columns of `oldExecutionArrays`, for the list of an `unnest`. */
export const oldExecutionColumns = "old_claim_id, old_execution, old_expires_at"

/** The executions from which the changes were computed as arrays, one for each of `oldExecutionColumns`. */
export const oldExecutionArrays = (
  sql: SqlClient.SqlClient,
  changes: ReadonlyArray<ExecutionChange>
): Statement.Fragment => {
  const from = changes.map((change) => change.from)
  return sql`
    ${textArray(from.map((one) => one?.claim_id ?? null))}::text[],
    ${textArray(from.map((one) => one?.state ?? null))}::text[],
    ${timestamptzArray(from.map((one) => one?.expires_at ?? null))}::timestamptz[]`
}

/** An SQL condition: a step `s` has the execution from which the change was computed. A renewal moves the end of the lease. */
export const hasOldExecution = `
  s.claim_id IS NOT DISTINCT FROM n.old_claim_id
  AND s.execution IS NOT DISTINCT FROM n.old_execution
  AND s.claim_expires_at IS NOT DISTINCT FROM n.old_expires_at`

const outcomeFields = {
  outcome_status: Schema.NullOr(OutcomeStatus),
  outcome_result: Schema.NullOr(JsonValue),
  has_result: Schema.Boolean,
  outcome_error: Schema.NullOr(Schema.String),
  outcome_at: Schema.NullOr(TimestampFromDate)
}

const OutcomeRow = Schema.Struct({
  step_id: StepId,
  execution: Schema.NullOr(ExecutionJson),
  ...outcomeFields
})

const outcomeColumns = `step.step_id, ${executionJson} AS execution, step.outcome_status, step.outcome_result,
  step.outcome_result IS NOT NULL AS has_result, step.outcome_error, step.outcome_at`

const ExecutionRow = Schema.Struct({
  ...OutcomeRow.fields,
  execution: ExecutionJson,
  claim_id: ClaimId,
  session_id: SessionId,
  task_id: Schema.NullOr(TaskId),
  tool: Schema.String,
  action_class: Schema.String,
  arguments: Schema.NullOr(JsonValue),
  has_arguments: Schema.Boolean,
  arguments_digest: Schema.String
})

const listedColumns = `${outcomeColumns}, step.claim_id, step.session_id, step.task_id, step.tool, step.action_class, step.arguments,
  step.arguments IS NOT NULL AS has_arguments, step.arguments_digest`

const toOutcome = (row: typeof OutcomeRow.Type): StepOutcome | null =>
  row.outcome_status === null || row.outcome_at === null
    ? null
    : {
        step_id: row.step_id,
        status: row.outcome_status,
        ...(row.has_result ? { result: row.outcome_result } : {}),
        error: row.outcome_error,
        occurred_at: row.outcome_at,
        ...(row.execution !== null && isLate(row.execution) ? { late: true } : {})
      }

const toExecution = (row: typeof ExecutionRow.Type): Execution => {
  const { execution } = row
  return {
    claim_id: execution.claim_id,
    session_id: row.session_id,
    step_id: row.step_id,
    task_id: row.task_id,
    tool: row.tool,
    action_class: row.action_class,
    ...(row.has_arguments ? { arguments: row.arguments } : {}),
    state: execution.state,
    attempt: execution.attempt,
    idempotency_key: idempotencyKeyOf(row.arguments_digest),
    claimed_at: execution.claimed_at,
    claimed_by: execution.claimed_by,
    expires_at: execution.expires_at,
    // Only executions that were unknown are read.
    unknown_at: execution.unknown_at ?? execution.expires_at,
    outcome: toOutcome(row),
    resolution: execution.resolution
  }
}

const outcomeRows = rowsOf(OutcomeRow)

/** The outcome of a step; null if it has none. */
export const findOutcome = (sql: SqlClient.SqlClient, { org_id, session_id, step_id }: StepKey) =>
  Effect.map(
    outcomeRows.first(sql`
      SELECT ${sql.literal(outcomeColumns)}
      FROM governed_steps step
      WHERE org_id = ${org_id}
        AND session_id = ${session_id}
        AND step_id = ${step_id}
    `),
    (row) => (row === undefined ? null : toOutcome(row))
  )

const executionRows = rowsOf(ExecutionRow)

/** The organization's execution with this claim, if its outcome is or was unknown. */
export const findExecution = (sql: SqlClient.SqlClient, org_id: OrgId, claim_id: ClaimId) =>
  Effect.map(
    executionRows.first(sql`
      SELECT ${sql.literal(listedColumns)}
      FROM governed_steps step
      WHERE org_id = ${org_id}
        AND claim_id = ${claim_id}
        AND unknown_at IS NOT NULL
    `),
    (row) => (row === undefined ? undefined : toExecution(row))
  )

const stepRows = rowsOf(Schema.Struct({ session_id: SessionId, step_id: StepId }))

/** The step of an execution whose outcome is or was unknown. */
export const findStepOfClaim = (sql: SqlClient.SqlClient, org_id: OrgId, claim_id: ClaimId) =>
  stepRows.first(sql`
    SELECT session_id, step_id
    FROM governed_steps
    WHERE org_id = ${org_id}
      AND claim_id = ${claim_id}
      AND unknown_at IS NOT NULL
  `)

const listedRows = rowsOf(Schema.Struct({ ...ExecutionRow.fields, found: Schema.Int }))

/** Bytes of the parts of an execution that can be large. */
const BYTES =
  "(coalesce(octet_length(arguments::text), 0) + coalesce(octet_length(outcome_result::text), 0) + coalesce(octet_length(outcome_error), 0))"

/** A page of the organization's executions whose outcome is or was unknown, newest claim first. */
export const listExecutions = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: PageRequest<ClaimId> & ExecutionFilter
) {
  const { session_id, state, tool } = request
  const { ctes, isOnPage } = pageWithinBytes(sql, {
    table: "governed_steps",
    id: "claim_id",
    bytes: BYTES,
    where: sql.and([
      sql`org_id = ${org_id}`,
      sql.literal("unknown_at IS NOT NULL"),
      // As a literal, so that an index of this state can be used.
      ...(state === undefined ? [] : [sql.literal(stateConditions[state])]),
      ...(session_id === undefined ? [] : [sql`session_id = ${session_id}`]),
      ...(tool === undefined ? [] : [sql`tool = ${tool}`])
    ]),
    request
  })
  const rows = yield* listedRows.all(sql`
    ${ctes}
    SELECT ${sql.literal(listedColumns)}, found
    FROM sized
      JOIN governed_steps step USING (claim_id)
    WHERE step.org_id = ${org_id}
      AND step.unknown_at IS NOT NULL
      AND ${isOnPage}
    ORDER BY claim_id DESC
  `)
  return toPageWithinBytes(rows, toExecution, (row) => row.claim_id)
})

const stateConditions = {
  unknown: "execution = 'unknown'",
  retryable: "execution = 'retryable'",
  completed: "execution = 'completed'"
} as const

const dueRows = rowsOf(
  Schema.Struct({
    org_id: OrgId,
    session_id: SessionId,
    step_id: StepId,
    claim_id: ClaimId,
    claim_expires_at: TimestampFromDate
  })
)

/** The leases that have ended without an outcome, of all organizations, the longest due first. */
export const findDueLeases = (
  sql: SqlClient.SqlClient,
  now: Timestamp,
  after: { readonly claim_expires_at: Timestamp; readonly claim_id: ClaimId | "" },
  limit: number
) =>
  dueRows.all(sql`
    SELECT org_id, session_id, step_id, claim_id, claim_expires_at
    FROM governed_steps
    WHERE execution = 'executing'
      AND claim_expires_at <= ${toDate(now)}
      AND (claim_expires_at, claim_id) > (${toDate(after.claim_expires_at)}, ${after.claim_id})
    ORDER BY claim_expires_at, claim_id
    LIMIT ${limit}
  `)

const nextRows = rowsOf(Schema.Struct({ claim_expires_at: TimestampFromDate }))

/** When the next lease ends, of all organizations; undefined: no step is being executed. */
export const findNextLeaseEnd = (sql: SqlClient.SqlClient) =>
  Effect.map(
    nextRows.first(sql`
      SELECT claim_expires_at
      FROM governed_steps
      WHERE execution = 'executing'
      ORDER BY claim_expires_at, claim_id
      LIMIT 1
    `),
    (row) => row?.claim_expires_at
  )

const executingRows = rowsOf(
  Schema.Struct({ step_id: StepId, tool: Schema.String, execution: ExecutionJson })
)

/** The steps of a session that are being executed, after a step in the order of their ids. The caller has locked the session. */
export const findExecuting = (
  sql: SqlClient.SqlClient,
  { org_id, session_id }: SessionKey,
  after: StepId | "",
  limit: number
) =>
  executingRows.all(sql`
    SELECT step.step_id, step.tool, ${sql.literal(executionJson)} AS execution
    FROM governed_steps step
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
      AND step_id > ${after}
      AND execution = 'executing'
    ORDER BY step_id
    LIMIT ${limit}
  `)

/** Makes the outcome of steps unknown that are being executed. The caller has locked the session. */
export const makeUnknown = (
  sql: SqlClient.SqlClient,
  { org_id, session_id }: SessionKey,
  step_ids: ReadonlyArray<StepId>,
  now: Timestamp
) => sql`
  UPDATE governed_steps
  SET execution = 'unknown', unknown_at = ${toDate(now)}
  WHERE org_id = ${org_id}
    AND session_id = ${session_id}
    AND step_id = ANY(${textArray(step_ids)}::text[])
    AND execution = 'executing'
`
