/**
 * The statement that commits the writes of many requests. Each write is applied whole or not at all:
 *
 * ```
 *  ops ──▶ eligible ──▶ changed ──▶ applied ──▶ raised ──▶ numbered ──▶ session_events, approvals, audit_log,
 *          locks the    inserts or  numbers     raises                  approval_events, deliveries, delivery_queue
 *          session      updates     the events  last_event
 * ```
 *
 * - `eligible` locks each session's row, skipping rows that another transaction has locked, and checks the preconditions
 *   of the writes: the session is open, the rules and the endpoints have not changed, no destination is
 *   near its queue limit, no counter-proposal or standing grant may answer for a question, the counters of the
 *   budgets that a step uses have not changed, and a reviewer model that decides may still do so.
 * - `changed` applies each change under a condition of its own: PostgreSQL evaluates it on the newest version of the
 *   row, so of two concurrent writes one is applied.
 * - Everything else is inserted for the writes in `applied` only.
 * - Rows that many requests write are locked last, and in the same order as by a transaction: counts of approvals, counts of deliveries,
 *   heads of the audit log. PostgreSQL executes the changes that nothing reads from the last to the first.
 *
 * A statement contains only the parts that its writes need, so there are some ten different texts, each prepared once
 * per connection.
 */
import { type Array as Arr, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { TraceId } from "../../../domain/Ids.ts"
import { formatTimestamp } from "../../../domain/Time.ts"
import type { EnqueueParts, InsertedDelivery } from "../../delivery/Delivery.ts"
import { type PreparedEvent, subscriptions } from "../../notifications/PreparedEvent.ts"
import { insertCte, int8s, type RowInsert, texts } from "../../store/givenRows.ts"
import { boolArray, byteaArray, int4Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import type { CounterWrite } from "../BudgetCounters/composeSpends.ts"
import { encodeEventTail } from "../SessionEvents.ts"
import { COUNTERS_PREMISE, currentCounters, givenCounters, raisedCounters } from "./counterChange.ts"
import type { ChangeOf, Op } from "./Op.ts"
import { decodeResumedStep, type ResumedStep } from "./ResumedStep.ts"
import {
  approvalIdOf,
  type PreparedWrite,
  type SessionChange,
  shadowRevisionOf,
  type Written
} from "./SessionWrite.ts"
import { currentReviewers, givenReviews, insertedReviews, REVIEWERS_PREMISE } from "./reviewerChange.ts"
import { newSteps, savedRows, savedSteps, stepChange } from "./stepChange.ts"
import { decisionChange, executionChange, outcomeChange } from "./stepUpdates.ts"
import { auditEntries, transitionChange } from "./transitionChange.ts"

/** Why a write's notification was refused. */
export type Refusal = "EndpointsChanged" | "QueueNearLimit"

/**
 * By index in the list of writes: the applied writes, the steps that were saved before, and the refused notifications. Also the
 * deliveries that were inserted.
 */
export interface WriteResult {
  readonly written: ReadonlyMap<number, Written>
  readonly saved: ReadonlyMap<number, ResumedStep>
  readonly refused: ReadonlyMap<number, ReadonlyArray<Refusal>>
  readonly inserted: ReadonlyArray<InsertedDelivery>
}

/** A row for each applied write and each of its deliveries, for each step that the session already has, and for each refusal. */
interface ResultRow extends Omit<InsertedDelivery, "delivery_id"> {
  readonly op: number
  readonly trace_id: TraceId | null
  readonly newest: number
  readonly delivery_id: string | null
  readonly saved: unknown
  readonly refusal: Refusal | null
}

interface StatementOptions {
  /** The delivery engine's parts, if any of the writes has deliveries. */
  readonly parts?: EnqueueParts | undefined
  /**
   * Whether the caller's transaction has locked the sessions, read the premises of the writes under the locks, and writes the entries of
   * the audit log: the premises hold.
   */
  readonly isLocked?: boolean
  /** The counters of the budgets that the steps use. */
  readonly counters: ReadonlyArray<CounterWrite>
}

/** Runs the statement. */
export const runWrites = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  writes: Arr.NonEmptyReadonlyArray<PreparedWrite>,
  { counters, isLocked = false, parts }: StatementOptions
) {
  const ops = writes.map((write, op): Op => ({ op, write, change: write.change }))
  const notified = ops.flatMap(({ op, write }) =>
    write.notification === null ? [] : [{ op, write, notification: write.notification }]
  )
  const steps = ops.filter(isOf("Step"))
  const transitions = ops.filter(isOf("Transition"))
  const reviewed = steps.filter(({ change }) => change.review !== null)
  const isReviewed = reviewed.length > 0
  const readsSaved = steps.length > 0 && !isLocked
  const changes = [
    ...stepChange(sql, steps),
    ...decisionChange(sql, ops.filter(isOf("Decision"))),
    ...executionChange(sql, ops.filter(isOf("Execution"))),
    ...outcomeChange(sql, ops.filter(isOf("Outcome"))),
    ...transitionChange(sql, transitions)
  ]
  const inserts = [
    ...changes.flatMap((change) => change.inserts),
    ...(isReviewed ? [insertedReviews(reviewed)] : [])
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
    ...(notified.length === 0 ? [] : [refusedNotifications(sql, parts !== undefined)]),
    ...(steps.length === 0 ? [] : [newSteps(sql, steps)]),
    ...(readsSaved ? [savedSteps(sql)] : []),
    ...(counters.length === 0 ? [] : givenCounters(sql, counters)),
    ...(counters.length === 0 || isLocked ? [] : [currentCounters(sql)]),
    ...givenReviews(sql, reviewed),
    ...(isReviewed && !isLocked ? [currentReviewers(sql)] : []),
    eligibleOps(sql, {
      isLocked,
      notifies: notified.length > 0,
      reviewed: isReviewed,
      spends: counters.length > 0,
      steps: steps.length > 0
    }),
    ...changes.flatMap(({ ctes }) => ctes),
    appliedOps(
      sql,
      changes.map(({ name }) => name)
    ),
    ...((transitions.length === 0 && !isReviewed) || isLocked
      ? []
      : [auditEntries(sql, [...transitions, ...reviewed])]),
    ...(counters.length === 0 ? [] : [raisedCounters(sql)]),
    ...inserts.map((insert) => insertCte(sql, insert, "numbered")),
    ...(parts === undefined ? [] : [parts.insert(acceptedDeliveries(sql))]),
    ...changes.flatMap(({ counts = [] }) => counts),
    insertCte(sql, insertedEvents(ops), "numbered"),
    ...(notified.length === 0 ? [] : [insertedNotifications(sql)])
  ]
  const rows = yield* sql<ResultRow>`
    WITH ${sql.join(", ", false)(fragments)}
    ${writtenRows(sql, parts !== undefined)}
    ${readsSaved ? savedRows(sql) : sql.literal("")}
    ${notified.length === 0 ? sql.literal("") : refusedRows(sql)}
  `
  const written = new Map<number, Written>()
  const saved = new Map<number, ResumedStep>()
  const refused = new Map<number, Array<Refusal>>()
  const inserted: Array<InsertedDelivery> = []
  for (const { delivery_id, newest, op, refusal, saved: text, trace_id, ...row } of rows) {
    if (trace_id !== null) written.set(op, { newest, trace_id })
    if (delivery_id !== null) inserted.push({ ...row, delivery_id })
    if (text !== null) saved.set(op, yield* Effect.orDie(decodeResumedStep(text)))
    if (refusal !== null) refused.set(op, [...(refused.get(op) ?? []), refusal])
  }
  return { written, saved, refused, inserted } satisfies WriteResult
})

const isOf =
  <Tag extends SessionChange["_tag"]>(tag: Tag) =>
  (op: Op): op is Op<ChangeOf<Tag>> =>
    op.change._tag === tag

/** Whether a write is about a step that needs a person or a model, and a person's counter-proposal or standing grant may already answer. */
const asks = ({ change }: Op): boolean =>
  change._tag === "Step" && (change.approval !== null || change.review !== null)

const opsTable = (sql: SqlClient.SqlClient, ops: ReadonlyArray<Op>) => sql`
  ops AS MATERIALIZED (
    SELECT *
    FROM unnest(
      ${int4Array(ops.map(({ op }) => op))}::int[],
      ${textArray(ops.map(({ write }) => write.org_id))}::text[],
      ${textArray(ops.map(({ write }) => write.session_id))}::text[],
      ${int4Array(ops.map(({ write }) => write.rules_revision))}::int[],
      ${int4Array(ops.map(({ write }) => shadowRevisionOf(write)))}::int[],
      ${boolArray(ops.map(asks))}::boolean[],
      ${int4Array(ops.map(({ write }) => write.events.length))}::int[],
      ${timestamptzArray(ops.map(({ write }) => write.now))}::timestamptz[]
    ) AS o (op, org_id, session_id, rules_revision, shadow_revision, asks, event_count, at)
  )`

interface Notified {
  readonly op: number
  readonly write: PreparedWrite
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

/** The notifications whose premises do not hold. Their reasons tell the caller what to do before it shares a statement again. */
const refusedNotifications = (sql: SqlClient.SqlClient, delivers: boolean) =>
  sql.literal(`
  refused AS MATERIALIZED (
    SELECT n.op, 'EndpointsChanged' AS refusal
    FROM notified n
      JOIN subscriptions u ON u.org_id = n.org_id AND u.type = n.type
    WHERE n.endpoints <> u.endpoints
    ${
      delivers
        ? `UNION
    SELECT n.op, 'QueueNearLimit'
    FROM notified n
      JOIN given g ON g.event_id = n.event_id
      JOIN destinations d ON d.org_id = g.org_id AND d.destination_id = g.destination_id
    WHERE d.near_limit`
        : ""
    }
  )`)

/** A batch must not wait for one session's lock: its caller waits for it alone. */
const LOCK = "FOR NO KEY UPDATE OF s SKIP LOCKED"

/** The writes whose premises hold: all of them if the caller's transaction has checked them under the lock. Locks their sessions. */
const eligibleOps = (
  sql: SqlClient.SqlClient,
  {
    isLocked,
    notifies,
    reviewed,
    spends,
    steps
  }: {
    readonly isLocked: boolean
    readonly notifies: boolean
    readonly reviewed: boolean
    readonly spends: boolean
    readonly steps: boolean
  }
) => {
  const rules = "LEFT JOIN approval_rules r ON r.org_id = o.org_id"
  const premises = `
    WHERE s.closed_at IS NULL
      AND (o.rules_revision IS NULL OR o.rules_revision = coalesce(r.revision, 0))
      ${
        steps
          ? `AND (o.shadow_revision IS NULL OR o.shadow_revision = coalesce(r.shadow_revision, 0))
      AND NOT EXISTS (SELECT FROM saved WHERE saved.op = o.op)
      -- A step that a counter-proposal or a grant may allow is decided under the session's lock, which counts the use.
      AND (NOT o.asks OR s.proposals_until IS NULL OR s.proposals_until <= o.at)
      AND (NOT o.asks OR s.grants_until IS NULL OR s.grants_until <= o.at)`
          : ""
      }
      ${spends ? COUNTERS_PREMISE : ""}
      ${reviewed ? REVIEWERS_PREMISE : ""}
      ${notifies ? "AND NOT EXISTS (SELECT FROM refused WHERE refused.op = o.op)" : ""}`
  // One text without parameters: it is part of every step's statement.
  return sql.literal(`
  eligible AS MATERIALIZED (
    SELECT o.*, s.trace_id
    FROM ops o
      JOIN agent_sessions s ON s.org_id = o.org_id AND s.session_id = o.session_id
    ${isLocked ? "" : `${rules} ${premises} ${LOCK}`})`)
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

/** The events of the writes' sessions. */
export const insertedEvents = (ops: ReadonlyArray<Op>): RowInsert => {
  const events = ops.flatMap(({ op, write }) => {
    const occurred_at = formatTimestamp(write.now)
    return write.events.map((event, index) => ({
      op,
      position: index + 1,
      event,
      tail: encodeEventTail(write.session_id, event, occurred_at)
    }))
  })
  return {
    name: "inserted_events",
    into: "session_events",
    columns: {
      org_id: "a.org_id",
      session_id: "a.session_id",
      number: "a.newest_before + n.position",
      type: "n.type",
      step_id: "n.step_id",
      occurred_at: "a.at",
      data: `('{"id":' || (a.newest_before + n.position)::text || ',' || n.tail)::json`
    },
    rows: {
      n: {
        ops: events.map(({ op }) => op),
        columns: {
          position: int8s(events.map(({ position }) => position)),
          type: texts(events.map(({ event }) => event.type)),
          step_id: texts(events.map(({ event }) => event.step_id)),
          tail: texts(events.map(({ tail }) => tail))
        }
      }
    }
  }
}

const insertedNotifications = (sql: SqlClient.SqlClient) => sql`
  inserted_notifications AS (
    INSERT INTO approval_events (org_id, event_id, type, approval_id, body, occurred_at)
    SELECT n.org_id, n.event_id, n.type, n.approval_id, n.body, a.at
    FROM notified n
      JOIN numbered a ON a.op = n.op
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
           coalesce(d.is_full, false) AS is_full, coalesce(d.waiting, 0) AS waiting, q.seq::float8 AS seq,
           d.consecutive_failures, d.cooldown_round, d.cooldown_ms,
           NULL::text AS saved, NULL::text AS refusal
         FROM numbered a
           LEFT JOIN notified n ON n.op = a.op
           LEFT JOIN given g ON g.event_id = n.event_id
           LEFT JOIN queued q ON q.delivery_id = g.delivery_id
           LEFT JOIN destinations d ON d.org_id = g.org_id AND d.destination_id = g.destination_id`
      : `SELECT
           op, trace_id, (newest_before + event_count)::float8 AS newest, NULL::text AS delivery_id, false AS is_full,
           0 AS waiting, NULL::float8 AS seq, NULL::int AS consecutive_failures, NULL::int AS cooldown_round, NULL::float8 AS cooldown_ms,
           NULL::text AS saved, NULL::text AS refusal
         FROM numbered`
  )

const refusedRows = (sql: SqlClient.SqlClient) =>
  sql.literal(
    "UNION ALL SELECT op, NULL::text, NULL::float8, NULL::text, false, 0, NULL::float8, NULL::int, NULL::int, NULL::float8, NULL::text, refusal FROM refused"
  )
