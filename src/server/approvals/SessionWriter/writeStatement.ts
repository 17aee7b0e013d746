/**
 * The statement that commits the writes of many requests. Each write is applied whole or not at all:
 *
 * ```
 *  ops ──▶ eligible ──▶ changed ──▶ applied ──▶ raised ──▶ numbered ──▶ session_events, approvals, audit_log,
 *          locks the    inserts or  numbers     raises                  approval_events, deliveries, delivery_queue
 *          session      updates     the events  last_event
 * ```
 *
 * - `eligible` locks each session's row, skipping rows that another transaction has locked, and checks what the writes follow from: the
 *   session is open, the rules and the endpoints have not changed, no destination is near its queue limit.
 * - `changed` applies each change under a condition of its own: PostgreSQL evaluates it on the newest version of the row, so of two
 *   concurrent writes one is applied.
 * - Everything else is inserted for the writes in `applied` only.
 *
 * A statement contains only the parts that its writes need, so there are some ten different texts, each prepared once per connection.
 */
import { type Array as Arr, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { nextTransitionAt } from "../../../domain/approvals/ApprovalState.ts"
import type { TraceId } from "../../../domain/Ids.ts"
import { formatTimestamp } from "../../../domain/Time.ts"
import type { EnqueueParts, InsertedDelivery } from "../../delivery/Delivery.ts"
import { type PreparedEvent, subscriptions } from "../../notifications/PreparedEvent.ts"
import {
  boolArray,
  byteaArray,
  float8Array,
  int4Array,
  int8Array,
  textArray,
  timestamptzArray
} from "../../store/pgArrays.ts"
import { stateOf } from "../approvalRows.ts"
import { encodeEventTail } from "../SessionEvents.ts"
import { decodeResumedStep, type ResumedStep, resumedStepJson } from "./ResumedStep.ts"
import { approvalIdOf, type SessionChange, type SessionWrite, type Written } from "./SessionWrite.ts"

/** By index in the list of writes: those that were applied, and the steps that were saved before. Also the deliveries that were inserted. */
export interface WriteResult {
  readonly written: ReadonlyMap<number, Written>
  readonly saved: ReadonlyMap<number, ResumedStep>
  readonly inserted: ReadonlyArray<InsertedDelivery>
}

/** A row for each applied write and each of its deliveries, and for each step that the session already has. */
interface ResultRow extends Omit<InsertedDelivery, "delivery_id"> {
  readonly op: number
  readonly trace_id: TraceId | null
  readonly newest: number
  readonly delivery_id: string | null
  readonly saved: unknown
}

/** A write with its index in the batch, and its change. */
interface Op<Change extends SessionChange = SessionChange> {
  readonly op: number
  readonly write: SessionWrite
  readonly change: Change
}

type ChangeOf<Tag extends SessionChange["_tag"]> = Extract<SessionChange, { readonly _tag: Tag }>

/** Runs the statement. `parts` are the delivery engine's, if any of the writes has deliveries. */
export const runWrites = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  writes: Arr.NonEmptyReadonlyArray<SessionWrite>,
  parts: EnqueueParts | undefined
) {
  const ops = writes.map((write, op): Op => ({ op, write, change: write.change }))
  const notified = ops.flatMap(({ op, write }) =>
    write.notification === null ? [] : [{ op, write, notification: write.notification }]
  )
  const steps = ops.filter(isOf("Step"))
  const changes = [
    ...stepChange(sql, steps),
    ...decisionChange(sql, ops.filter(isOf("Decision"))),
    ...outcomeChange(sql, ops.filter(isOf("Outcome"))),
    ...transitionChange(sql, ops.filter(isOf("Transition")))
  ]
  const fragments = [
    opsTable(sql, ops),
    ...(notified.length === 0
      ? []
      : [
          notifiedTable(sql, notified),
          subscriptions(
            sql,
            notified.map((one) => one.notification)
          )
        ]),
    ...(parts === undefined ? [] : [parts.given]),
    ...(steps.length === 0 ? [] : [newSteps(sql, steps), savedSteps(sql)]),
    eligibleOps(sql, {
      notifies: notified.length > 0,
      delivers: parts !== undefined,
      steps: steps.length > 0
    }),
    ...changes.flatMap(({ ctes }) => ctes),
    appliedOps(
      sql,
      changes.map(({ name }) => name)
    ),
    insertedEvents(sql, ops),
    ...changes.flatMap(({ inserts }) => inserts),
    ...(parts === undefined ? [] : [insertedNotifications(sql), parts.insert(acceptedDeliveries(sql))])
  ]
  const rows = yield* sql<ResultRow>`
    WITH ${sql.join(", ", false)(fragments)}
    ${writtenRows(sql, parts !== undefined)}
    ${steps.length === 0 ? sql.literal("") : savedRows(sql)}
  `
  const written = new Map<number, Written>()
  const saved = new Map<number, ResumedStep>()
  const inserted: Array<InsertedDelivery> = []
  for (const { delivery_id, newest, op, saved: text, trace_id, ...row } of rows) {
    if (trace_id !== null) written.set(op, { newest, trace_id })
    if (delivery_id !== null) inserted.push({ ...row, delivery_id })
    if (text !== null) saved.set(op, yield* Effect.orDie(decodeResumedStep(text)))
  }
  return { written, saved, inserted } satisfies WriteResult
})

const isOf =
  <Tag extends SessionChange["_tag"]>(tag: Tag) =>
  (op: Op): op is Op<ChangeOf<Tag>> =>
    op.change._tag === tag

const opsTable = (sql: SqlClient.SqlClient, ops: ReadonlyArray<Op>) => sql`
  ops AS MATERIALIZED (
    SELECT *
    FROM unnest(
      ${int4Array(ops.map(({ op }) => op))}::int[],
      ${textArray(ops.map(({ write }) => write.org_id))}::text[],
      ${textArray(ops.map(({ write }) => write.session_id))}::text[],
      ${int4Array(ops.map(({ write }) => write.rules_revision))}::int[],
      ${int4Array(ops.map(({ write }) => write.events.length))}::int[],
      ${timestamptzArray(ops.map(({ write }) => write.now))}::timestamptz[]
    ) AS o (op, org_id, session_id, rules_revision, event_count, at)
  )`

interface Notified {
  readonly op: number
  readonly write: SessionWrite
  readonly notification: PreparedEvent
}

const notifiedTable = (sql: SqlClient.SqlClient, notified: ReadonlyArray<Notified>) => sql`
  notified AS MATERIALIZED (
    SELECT *
    FROM unnest(
      ${int4Array(notified.map(({ op }) => op))}::int[],
      ${textArray(notified.map(({ notification }) => notification.org_id))}::text[],
      ${textArray(notified.map(({ notification }) => notification.type))}::text[],
      ${textArray(notified.map(({ notification }) => notification.endpoints))}::text[],
      ${textArray(notified.map(({ notification }) => notification.event_id))}::text[],
      ${byteaArray(notified.map(({ notification }) => notification.body))}::bytea[],
      ${textArray(notified.map(({ write }) => approvalIdOf(write)))}::text[]
    ) AS n (op, org_id, type, endpoints, event_id, body, approval_id)
  )`

const eligibleOps = (
  sql: SqlClient.SqlClient,
  {
    delivers,
    notifies,
    steps
  }: { readonly notifies: boolean; readonly delivers: boolean; readonly steps: boolean }
) => sql`
  eligible AS MATERIALIZED (
    SELECT o.*, s.trace_id
    FROM ops o
      JOIN agent_sessions s ON s.org_id = o.org_id AND s.session_id = o.session_id
      LEFT JOIN approval_rules r ON r.org_id = o.org_id
    WHERE s.closed_at IS NULL
      AND (o.rules_revision IS NULL OR o.rules_revision = coalesce(r.revision, 0))
      ${sql.literal(steps ? "AND NOT EXISTS (SELECT FROM saved WHERE saved.op = o.op)" : "")}
      ${
        notifies
          ? sql`AND NOT EXISTS (
              SELECT FROM notified n
                JOIN subscriptions u ON u.org_id = n.org_id AND u.type = n.type
              WHERE n.op = o.op
                AND n.endpoints <> u.endpoints
            )`
          : sql.literal("")
      }
      ${
        delivers
          ? sql`AND NOT EXISTS (
              SELECT FROM notified n
                JOIN given g ON g.event_id = n.event_id
                JOIN destinations d ON d.org_id = g.org_id AND d.destination_id = g.destination_id
              WHERE n.op = o.op
                AND d.near_limit
            )`
          : sql.literal("")
      }
    -- A batch must not wait for one session's lock: what is locked is written by the caller's own transaction.
    FOR NO KEY UPDATE OF s SKIP LOCKED
  )`

/** One kind of change: the CTE \`name` has the \`op\` of each change that took effect. */
interface ChangePart {
  readonly name: string
  readonly ctes: ReadonlyArray<Statement.Fragment>
  /** Inserts of further rows for the writes that were applied. */
  readonly inserts: ReadonlyArray<Statement.Fragment>
}

const newSteps = (sql: SqlClient.SqlClient, ops: ReadonlyArray<Op<ChangeOf<"Step">>>) => {
  const steps = ops.map(({ change }) => change.step)
  return sql`
    new_steps AS MATERIALIZED (
      SELECT *
      FROM unnest(
        ${int4Array(ops.map(({ op }) => op))}::int[],
        ${textArray(steps.map((step) => step.step_id))}::text[],
        ${textArray(steps.map((step) => step.task_id))}::text[],
        ${textArray(steps.map((step) => step.tool))}::text[],
        ${textArray(steps.map((step) => step.action_class))}::text[],
        ${textArray(steps.map((step) => step.arguments))}::text[],
        ${textArray(steps.map((step) => step.arguments_digest))}::text[],
        ${textArray(steps.map((step) => step.rule_id))}::text[],
        ${textArray(steps.map((step) => step.decision))}::text[],
        ${textArray(steps.map((step) => step.reason))}::text[],
        ${textArray(steps.map((step) => step.approval_id))}::text[],
        ${textArray(steps.map((step) => step.requested_by_id))}::text[]
      ) AS n (
        op, step_id, task_id, tool, action_class, arguments, arguments_digest, rule_id, decision, reason, approval_id,
        requested_by_id
      )
    )`
}

/** The steps that were saved before, so that a resume takes no second statement. Their sessions are not locked. */
const savedSteps = (sql: SqlClient.SqlClient) => sql`
  saved AS MATERIALIZED (
    SELECT o.op, ${sql.literal(resumedStepJson)} AS saved
    FROM new_steps n
      JOIN ops o ON o.op = n.op
      JOIN agent_sessions session ON session.org_id = o.org_id AND session.session_id = o.session_id
      JOIN governed_steps step
        ON step.org_id = o.org_id AND step.session_id = o.session_id AND step.step_id = n.step_id
      LEFT JOIN approvals approval ON approval.org_id = o.org_id AND approval.approval_id = step.approval_id
      LEFT JOIN approval_rules rules ON rules.org_id = o.org_id
  )`

const savedRows = (sql: SqlClient.SqlClient) =>
  sql.literal("UNION ALL SELECT op, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, saved FROM saved")

const stepChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Step">>>
): ReadonlyArray<ChangePart> => {
  if (ops.length === 0) return []
  const approvals = ops.flatMap(({ change, op }) =>
    change.approval === null ? [] : [{ op, row: change.approval }]
  )
  const rows = approvals.map(({ row }) => row)
  return [
    {
      name: "stepped",
      ctes: [
        sql`
          inserted_steps AS (
            INSERT INTO governed_steps (
              org_id, session_id, step_id, task_id, tool, action_class, arguments, arguments_digest, rule_id, decision, reason,
              approval_id, requested_by_id, requested_at
            )
            SELECT
              e.org_id, e.session_id, n.step_id, n.task_id, n.tool, n.action_class, n.arguments::json, n.arguments_digest, n.rule_id,
              n.decision, n.reason, n.approval_id, n.requested_by_id, e.at
            FROM new_steps n
              JOIN eligible e ON e.op = n.op
            ON CONFLICT (org_id, session_id, step_id) DO NOTHING
            RETURNING org_id, session_id, step_id
          )`,
        sql`
          stepped AS MATERIALIZED (
            SELECT n.op
            FROM new_steps n
              JOIN ops o ON o.op = n.op
              JOIN inserted_steps i ON i.org_id = o.org_id AND i.session_id = o.session_id AND i.step_id = n.step_id
          )`
      ],
      inserts:
        approvals.length === 0
          ? []
          : [
              sql`
                inserted_approvals AS (
                  INSERT INTO approvals (
                    org_id, approval_id, session_id, step_id, task_id, tool, action_class, arguments, arguments_bytes, arguments_digest,
                    status, stage, requested_at, requested_by_id, review_deadline_at, escalation_deadline_at, expires_at,
                    expiring_seconds, timeout_action, self_approval, next_due_at
                  )
                  SELECT
                    a.org_id, n.approval_id, a.session_id, n.step_id, n.task_id, n.tool, n.action_class, n.arguments::json,
                    coalesce(octet_length(n.arguments), 0), n.arguments_digest, 'pending', 'reviewer', a.at, n.requested_by_id,
                    p.review_deadline_at, p.escalation_deadline_at, p.review_deadline_at, p.expiring_seconds, p.timeout_action,
                    p.self_approval, p.next_due_at
                  FROM unnest(
                    ${int4Array(approvals.map(({ op }) => op))}::int[],
                    ${timestamptzArray(rows.map((row) => row.review_deadline_at))}::timestamptz[],
                    ${timestamptzArray(rows.map((row) => row.escalation_deadline_at))}::timestamptz[],
                    ${float8Array(rows.map((row) => row.expiring_seconds))}::float8[],
                    ${textArray(rows.map((row) => row.timeout_action))}::text[],
                    ${boolArray(rows.map((row) => row.self_approval))}::boolean[],
                    ${timestamptzArray(rows.map((row) => nextTransitionAt(stateOf(row))))}::timestamptz[]
                  ) AS p (
                    op, review_deadline_at, escalation_deadline_at, expiring_seconds, timeout_action, self_approval, next_due_at
                  )
                    JOIN new_steps n ON n.op = p.op
                    JOIN numbered a ON a.op = p.op
                )`
            ]
    }
  ]
}

const decisionChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Decision">>>
): ReadonlyArray<ChangePart> =>
  ops.length === 0
    ? []
    : [
        {
          name: "redecided",
          ctes: [
            sql`
              redecided AS (
                UPDATE governed_steps s
                SET last_decision = n.new_decision
                FROM unnest(
                  ${int4Array(ops.map(({ op }) => op))}::int[],
                  ${textArray(ops.map(({ change }) => change.step_id))}::text[],
                  ${textArray(ops.map(({ change }) => change.from))}::text[],
                  ${textArray(ops.map(({ change }) => change.to))}::text[]
                ) AS n (op, step_id, old_decision, new_decision)
                  JOIN eligible e ON e.op = n.op
                WHERE s.org_id = e.org_id
                  AND s.session_id = e.session_id
                  AND s.step_id = n.step_id
                  AND s.outcome_at IS NULL
                  AND coalesce(s.last_decision, s.decision) = n.old_decision
                RETURNING n.op
              )`
          ],
          inserts: []
        }
      ]

const outcomeChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Outcome">>>
): ReadonlyArray<ChangePart> =>
  ops.length === 0
    ? []
    : [
        {
          name: "completed",
          ctes: [
            sql`
              completed AS (
                UPDATE governed_steps s
                SET outcome_status = n.status, outcome_result = n.result::json, outcome_error = n.error, outcome_at = e.at
                FROM unnest(
                  ${int4Array(ops.map(({ op }) => op))}::int[],
                  ${textArray(ops.map(({ change }) => change.outcome.step_id))}::text[],
                  ${textArray(ops.map(({ change }) => change.outcome.status))}::text[],
                  ${textArray(
                    ops.map(({ change: { outcome } }) =>
                      outcome.result === undefined ? null : JSON.stringify(outcome.result)
                    )
                  )}::text[],
                  ${textArray(ops.map(({ change }) => change.outcome.error))}::text[]
                ) AS n (op, step_id, status, result, error)
                  JOIN eligible e ON e.op = n.op
                WHERE s.org_id = e.org_id
                  AND s.session_id = e.session_id
                  AND s.step_id = n.step_id
                  AND s.outcome_at IS NULL
                  AND coalesce(s.last_decision, s.decision) = 'allow'
                RETURNING n.op
              )`
          ],
          inserts: []
        }
      ]

const transitionChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Transition">>>
): ReadonlyArray<ChangePart> => {
  if (ops.length === 0) return []
  const from = ops.map(({ change }) => change.from)
  const to = ops.map(({ change }) => change.to)
  const audits = ops.map(({ change }) => change.audit)
  return [
    {
      name: "transitioned",
      ctes: [
        sql`
          transitioned AS (
            UPDATE approvals a
            SET
              status = n.status,
              stage = n.stage,
              expires_at = n.expires_at,
              expiring_notified = n.expiring_notified,
              escalated_at = n.escalated_at,
              outcome = n.outcome,
              decision_source = n.decision_source,
              decided_at = n.decided_at,
              decided_by_id = n.decided_by_id,
              decided_by_name = n.decided_by_name,
              comment = n.comment,
              next_due_at = n.next_due_at
            FROM unnest(
              ${int4Array(ops.map(({ op }) => op))}::int[],
              ${textArray(to.map((row) => row.approval_id))}::text[],
              ${textArray(from.map((row) => row.status))}::text[],
              ${textArray(from.map((row) => row.stage))}::text[],
              ${timestamptzArray(from.map((row) => row.expires_at))}::timestamptz[],
              ${boolArray(from.map((row) => row.expiring_notified))}::boolean[],
              ${textArray(to.map((row) => row.status))}::text[],
              ${textArray(to.map((row) => row.stage))}::text[],
              ${timestamptzArray(to.map((row) => row.expires_at))}::timestamptz[],
              ${boolArray(to.map((row) => row.expiring_notified))}::boolean[],
              ${timestamptzArray(to.map((row) => row.escalated_at))}::timestamptz[],
              ${textArray(to.map((row) => row.outcome))}::text[],
              ${textArray(to.map((row) => row.decision_source))}::text[],
              ${timestamptzArray(to.map((row) => row.decided_at))}::timestamptz[],
              ${textArray(to.map((row) => row.decided_by_id))}::text[],
              ${textArray(to.map((row) => row.decided_by_name))}::text[],
              ${textArray(to.map((row) => row.comment))}::text[],
              ${timestamptzArray(to.map((row) => nextTransitionAt(stateOf(row))))}::timestamptz[]
            ) AS n (
              op, approval_id, old_status, old_stage, old_expires_at, old_expiring_notified, status, stage, expires_at,
              expiring_notified, escalated_at, outcome, decision_source, decided_at, decided_by_id, decided_by_name, comment, next_due_at
            )
              JOIN eligible e ON e.op = n.op
            WHERE a.org_id = e.org_id
              AND a.approval_id = n.approval_id
              AND a.status = n.old_status
              AND a.stage = n.old_stage
              -- A parameter has milliseconds; a row that something else has written may have microseconds.
              AND date_trunc('milliseconds', a.expires_at) = n.old_expires_at
              AND a.expiring_notified = n.old_expiring_notified
            RETURNING n.op
          )`
      ],
      inserts: [
        sql`
          audited AS (
            INSERT INTO audit_log (
              org_id, entry_id, action, target_id, actor_id, actor_name, occurred_at, request_id, detail
            )
            SELECT a.org_id, n.entry_id, n.action, n.target_id, n.actor_id, n.actor_name, a.at, n.request_id, n.detail::json
            FROM unnest(
              ${int4Array(ops.map(({ op }) => op))}::int[],
              ${textArray(audits.map((row) => row.entry_id))}::text[],
              ${textArray(audits.map((row) => row.action))}::text[],
              ${textArray(audits.map((row) => row.target_id))}::text[],
              ${textArray(audits.map((row) => row.actor_id))}::text[],
              ${textArray(audits.map((row) => row.actor_name))}::text[],
              ${textArray(audits.map((row) => row.request_id))}::text[],
              ${textArray(audits.map((row) => row.detail))}::text[]
            ) AS n (op, entry_id, action, target_id, actor_id, actor_name, request_id, detail)
              JOIN numbered a ON a.op = n.op
          )`
      ]
    }
  ]
}

const appliedOps = (sql: SqlClient.SqlClient, changes: ReadonlyArray<string>) => sql`
  applied AS MATERIALIZED (
    SELECT
      e.*,
      sum(e.event_count) OVER (PARTITION BY e.org_id, e.session_id ORDER BY e.op) - e.event_count AS events_before
    FROM eligible e
      JOIN (${sql.literal(changes.map((name) => `SELECT op FROM ${name}`).join(" UNION ALL "))}) c ON c.op = e.op
  ), raised AS (
    UPDATE agent_sessions s
    SET last_event = s.last_event + added.count
    FROM (
      SELECT org_id, session_id, sum(event_count) AS count
      FROM applied
      GROUP BY org_id, session_id
    ) added
    WHERE s.org_id = added.org_id
      AND s.session_id = added.session_id
    RETURNING s.org_id, s.session_id, s.last_event - added.count AS newest_before
  ), numbered AS MATERIALIZED (
    SELECT a.*, (r.newest_before + a.events_before)::bigint AS newest_before
    FROM applied a
      JOIN raised r ON r.org_id = a.org_id AND r.session_id = a.session_id
  )`

const insertedEvents = (sql: SqlClient.SqlClient, ops: ReadonlyArray<Op>) => {
  const events = ops.flatMap(({ op, write }) => {
    const occurred_at = formatTimestamp(write.now)
    return write.events.map((event, index) => ({
      op,
      position: index + 1,
      event,
      tail: encodeEventTail(write.session_id, event, occurred_at)
    }))
  })
  return sql`
    inserted_events AS (
      INSERT INTO session_events (org_id, session_id, number, type, step_id, occurred_at, data)
      SELECT
        a.org_id, a.session_id, a.newest_before + n.position, n.type, n.step_id, a.at,
        ('{"id":' || (a.newest_before + n.position)::text || ',' || n.tail)::json
      FROM unnest(
        ${int4Array(events.map(({ op }) => op))}::int[],
        ${int8Array(events.map(({ position }) => position))}::bigint[],
        ${textArray(events.map(({ event }) => event.type))}::text[],
        ${textArray(events.map(({ event }) => event.step_id))}::text[],
        ${textArray(events.map(({ tail }) => tail))}::text[]
      ) AS n (op, position, type, step_id, tail)
        JOIN numbered a ON a.op = n.op
    )`
}

const insertedNotifications = (sql: SqlClient.SqlClient) => sql`
  inserted_notifications AS (
    INSERT INTO approval_events (org_id, event_id, type, approval_id, body, occurred_at)
    SELECT n.org_id, n.event_id, n.type, n.approval_id, n.body, a.at
    FROM notified n
      JOIN numbered a ON a.op = n.op
    WHERE n.endpoints <> ''
  )`

const acceptedDeliveries = (sql: SqlClient.SqlClient) => sql`
  SELECT g.*
  FROM given g
    JOIN notified n ON n.event_id = g.event_id
    JOIN numbered a ON a.op = n.op`

const writtenRows = (sql: SqlClient.SqlClient, delivers: boolean) =>
  sql.literal(
    delivers
      ? `SELECT
           a.op, a.trace_id, (a.newest_before + a.event_count)::float8 AS newest,
           CASE WHEN q.delivery_id IS NOT NULL OR d.is_full THEN g.delivery_id END AS delivery_id,
           coalesce(d.is_full, false) AS is_full, q.seq::float8 AS seq, d.consecutive_failures, d.cooldown_round, d.cooldown_ms, NULL::text AS saved
         FROM numbered a
           LEFT JOIN notified n ON n.op = a.op
           LEFT JOIN given g ON g.event_id = n.event_id
           LEFT JOIN queued q ON q.delivery_id = g.delivery_id
           LEFT JOIN destinations d ON d.org_id = g.org_id AND d.destination_id = g.destination_id`
      : `SELECT
           op, trace_id, (newest_before + event_count)::float8 AS newest, NULL::text AS delivery_id, false AS is_full,
           NULL::float8 AS seq,
           NULL::int AS consecutive_failures, NULL::int AS cooldown_round, NULL::float8 AS cooldown_ms, NULL::text AS saved
         FROM numbered`
  )
