import { assert, layer } from "@effect/vitest"
import { DateTime, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { ApprovalId, FeedbackId, OrgId, SessionId, StepId, TraceId } from "../../../src/domain/Ids.ts"
import { approvalCounts } from "../../../src/server/approvals/approvalCounts.ts"
import { Deadlines } from "../../../src/server/approvals/Deadlines.ts"
import { deleteExpiredSession } from "../../../src/server/approvals/deleteExpiredSession.ts"
import { deliveryCounts } from "../../../src/server/delivery/Delivery/deliveryCounts.ts"
import { StoredUsage } from "../../../src/server/identity/StoredUsage.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { deleteExpiredFeedback, deleteExpiredRuns } from "../../../src/server/tasks/deleteExpired.ts"
import { feedbackCounts } from "../../../src/server/tasks/feedbackCounts.ts"
import { runCounts } from "../../../src/server/tasks/runCounts.ts"
import { seededRandom } from "../../support/breakingProxy.ts"
import { type Counts, readCounts, recount } from "../../support/counts.ts"
import { completed, orgIdOf } from "../../support/deletion.ts"
import { eventually, waitForBlockedStatements } from "../../support/eventually.ts"
import { service } from "../../support/service.ts"
import { createSortingTask, createTeamClients } from "../../support/tasks.ts"

/** Counts of both; none that is zero. */
const sum = (left: Counts, right: Counts, sign: 1 | -1): Counts => {
  const keys = [...Object.keys(left), ...Object.keys(right)].toSorted()
  return Object.fromEntries(
    keys.map((key) => [key, (left[key] ?? 0) + sign * (right[key] ?? 0)] as const).filter(([, n]) => n !== 0)
  )
}

const customers = ["ada", "bob"] as const

/** Operations of an organization that write approvals, runs and feedback, with values of a random generator. */
const operations = Effect.fnUntraced(function* (organization: string, random: () => number) {
  const sql = yield* SqlClient.SqlClient
  const usage = yield* StoredUsage
  const deadlines = yield* Deadlines
  const { admin, reviewer, runtime } = yield* createTeamClients(organization)
  const org_id = OrgId.make(yield* orgIdOf(organization))
  const { params } = yield* createSortingTask(admin, ["a", "other"])
  yield* admin.approvalRules.replace({
    payload: {
      rules: [
        { tool: "vote", effect: "require_approval", quorum: [{ count: 2 }] },
        { effect: "require_approval", escalation_seconds: 600 }
      ]
    }
  })
  const choose = <A>(list: ReadonlyArray<A>): A | undefined => list[Math.floor(random() * list.length)]
  const ids = (table: string, column: string, condition: string) =>
    Effect.map(
      sql<{ readonly id: string }>`
        SELECT ${sql(column)} AS id FROM ${sql(table)} WHERE org_id = ${org_id} AND ${sql.literal(condition)} ORDER BY 1
      `,
      (rows) => choose(rows)?.id
    )
  const metadata = () => ({ customer: choose(customers) ?? "" })
  let steps = 0

  const step = Effect.gen(function* () {
    const open = random() < 0.7 ? yield* ids("agent_sessions", "session_id", "closed_at IS NULL") : undefined
    const id =
      open === undefined
        ? (yield* runtime.sessions.create({ payload: { metadata: metadata() } })).session_id
        : SessionId.make(open)
    yield* runtime.sessions.step({
      params: { id },
      payload: {
        step_id: StepId.make(`step ${steps++}`),
        tool: choose(["pay", "mail", "vote"]) ?? "",
        action_class: "write"
      }
    })
  })
  const decide = Effect.gen(function* () {
    const id = yield* ids("approvals", "approval_id", "status = 'pending'")
    if (id === undefined) return
    yield* (random() < 0.5 ? admin : reviewer).approvals.decide({
      params: { id: ApprovalId.make(id) },
      payload:
        random() < 0.2
          ? { decision: "reject", proposed_arguments: { amount: steps } }
          : { decision: random() < 0.6 ? "approve" : "reject" }
    })
  })
  const close = Effect.gen(function* () {
    const id = yield* ids("agent_sessions", "session_id", "closed_at IS NULL")
    if (id !== undefined) yield* admin.sessions.close({ params: { id: SessionId.make(id) } })
  })
  /** Lets time pass for some pending approvals: they are escalated, or expire. */
  const pass = Effect.fnUntraced(function* (time: "65 minutes" | "30 days") {
    const by = sql.literal(`interval '${time}'`)
    yield* sql`
      UPDATE approvals
      SET
        requested_at = requested_at - ${by}, review_deadline_at = review_deadline_at - ${by},
        escalation_deadline_at = escalation_deadline_at - ${by}, expires_at = expires_at - ${by}, next_due_at = next_due_at - ${by}
      WHERE org_id = ${org_id}
        AND status = 'pending'
        AND hashtext(approval_id) % 2 = 0
    `
    yield* deadlines.runOnce
  })
  /** Waits until no approval is due: the service's own worker would close it at any time. */
  const settle = eventually(
    Effect.andThen(
      deadlines.runOnce,
      sql`SELECT 1 FROM approvals WHERE org_id = ${org_id} AND status = 'pending' AND next_due_at <= now()`
    ),
    (due) => due.length === 0
  )
  const run = Effect.suspend(() =>
    admin.tasks.run({
      params,
      payload: {
        input: { text: "a" },
        metadata: metadata(),
        ...(random() < 0.5 ? {} : { answer: { category: "other" } })
      }
    })
  )
  const importRuns = Effect.suspend(() =>
    admin.runs.import({
      params,
      payload: {
        runs: Array.from({ length: 3 }, () => ({
          id: `run ${Math.floor(random() * 40)}`,
          input: { text: "a" },
          answer: { category: "other" },
          created_at: DateTime.makeUnsafe(`2026-0${1 + Math.floor(random() * 3)}-01T23:59:59.999Z`),
          ...(random() < 0.5 ? {} : { score: random() < 0.5 ? 1 : -1 })
        }))
      }
    })
  )
  const judge = Effect.gen(function* () {
    const inference_log_id = yield* ids("runs", "trace_id", "true")
    if (inference_log_id === undefined) return
    yield* admin.feedback.create({
      payload: {
        inference_log_id,
        ...(random() < 0.5
          ? { score: random() < 0.5 ? 0 : 1 }
          : { score_value: Math.round(random() * 200 - 100) / 100 }),
        ...(random() < 0.5 ? {} : { score_label: choose(["rude", "long"]) ?? "" })
      }
    })
  })
  const removeFeedback = Effect.gen(function* () {
    const id = yield* ids("feedback", "feedback_id", "true")
    if (id !== undefined) yield* admin.feedback.remove({ params: { id: FeedbackId.make(id) } })
  })
  const removeRun = Effect.gen(function* () {
    const id = yield* ids("runs", "trace_id", "true")
    if (id !== undefined) yield* admin.runs.remove({ params: { id: TraceId.make(id) } })
  })
  const erase = Effect.gen(function* () {
    const { id } = yield* admin.deletions.erase({
      payload: { metadata_key: "customer", metadata_value: choose(customers) ?? "" }
    })
    yield* completed(admin, id)
  })
  /** Retention of everything that can expire. */
  const retain = Effect.gen(function* () {
    const now = yield* DateTime.now
    const expiry = { org_id, now, cutoff: DateTime.add(now, { days: 1 }) }
    yield* transaction(deleteExpiredRuns(sql, usage, expiry))
    yield* transaction(deleteExpiredFeedback(sql, usage, expiry))
    yield* transaction(deleteExpiredSession(sql, usage, expiry))
  })
  // Of two concurrent operations on one row, one may come too late.
  const writes = [
    step,
    step,
    step,
    decide,
    decide,
    decide,
    close,
    Effect.suspend(() => pass(random() < 0.5 ? "65 minutes" : "30 days")),
    run,
    run,
    importRuns,
    judge,
    judge,
    judge,
    removeFeedback,
    removeRun
  ].map((write) => Effect.ignore(write, { log: false }))
  return { choose, erase, escalate: Effect.andThen(step, pass("65 minutes")), org_id, retain, settle, writes }
})

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("Daily counts", (it) => {
  it.effect(
    "after concurrent operations in random order, erasures and retention, the counts are those of the rows, and of what retention deleted",
    () =>
      Effect.gen(function* () {
        const random = seededRandom(7)
        const { choose, erase, escalate, org_id, retain, settle, writes } = yield* operations(
          "random",
          random
        )
        let retained: Counts = {}
        const counted = new Set<string>()
        for (let round = 0; round < 8; round++) {
          yield* escalate
          yield* Effect.all(
            Array.from({ length: 40 }, () => choose(writes) ?? Effect.void),
            { concurrency: 8, discard: true }
          )
          yield* settle
          const before = yield* recount(org_id)
          assert.deepStrictEqual(sum(yield* readCounts(org_id), retained, -1), before, `after round ${round}`)
          for (const key of Object.keys(before)) counted.add(`${key.split(" ")[0]} ${key.split(" ").at(-1)}`)
          if (round % 3 === 1) {
            yield* erase
          } else if (round % 3 === 2) {
            yield* retain
            retained = sum(retained, sum(before, yield* recount(org_id), -1), 1)
          }
          assert.deepStrictEqual(
            sum(yield* readCounts(org_id), retained, -1),
            yield* recount(org_id),
            `after the deletion of round ${round}`
          )
        }
        assert.isAbove(Object.keys(retained).length, 0)
        assert.sameMembers(
          [...counted],
          [
            "approval_counts closed",
            "approval_counts escalated",
            "approval_group_counts closed",
            "feedback_counts positive",
            "feedback_counts neutral",
            "feedback_counts negative",
            "feedback_counts value_excess",
            "feedback_label_counts count",
            "run_counts runs"
          ]
        )
      })
  )

  const at = "'2026-11-21T12:00:00Z'::timestamptz"

  const countFeedback = (sql: SqlClient.SqlClient) => feedbackCounts(sql, { written: 1 })

  for (const { counts, first, last, rows, table } of [
    {
      table: "approval_counts",
      counts: approvalCounts,
      rows: `tool, status, 'human' AS decision_source, 'key_1' AS decided_by_id, ${at} AS requested_at, ${at} AS decided_at,
        NULL::timestamptz AS escalated_at FROM (VALUES ('pay', 'rejected'), ('mail', 'approved')) AS v (tool, status)`,
      first: "outcome = 'approved'",
      last: "outcome = 'rejected'"
    },
    {
      table: "approval_group_counts",
      counts: approvalCounts,
      rows: `tool, 'approved' AS status, 'human' AS decision_source, 'key_1' AS decided_by_id, ${at} AS requested_at, ${at} AS decided_at,
        NULL::timestamptz AS escalated_at FROM (VALUES ('pay'), ('mail')) AS v (tool)`,
      first: "kind = 'person'",
      last: "name = 'pay'"
    },
    {
      table: "delivery_counts",
      counts: deliveryCounts,
      rows: `destination_id, ${at} AS created_at, 'failed' AS status FROM (VALUES ('nep_2'), ('nep_1')) AS v (destination_id)`,
      first: "destination_id = 'nep_1'",
      last: "destination_id = 'nep_2'"
    },
    {
      table: "feedback_counts",
      counts: countFeedback,
      rows: `task_id, NULL AS release_id, ${at} AS created_at, 1 AS score, NULL::float8 AS score_value, NULL AS score_label,
        true AS is_current FROM (VALUES ('tsk_2'), ('tsk_1')) AS v (task_id)`,
      first: "task_id = 'tsk_1'",
      last: "task_id = 'tsk_2'"
    },
    {
      table: "feedback_label_counts",
      counts: countFeedback,
      rows: `'tsk_1' AS task_id, NULL AS release_id, ${at} AS created_at, 1 AS score, NULL::float8 AS score_value, score_label,
        true AS is_current FROM (VALUES ('rude'), ('long')) AS v (score_label)`,
      first: "score_label = 'long'",
      last: "score_label = 'rude'"
    },
    {
      table: "run_counts",
      counts: runCounts,
      rows: `task_id, 'rel_1' AS release_id, 'provider' AS source, ${at} AS created_at FROM (VALUES ('tsk_2'), ('tsk_1')) AS v (task_id)`,
      first: "task_id = 'tsk_1'",
      last: "task_id = 'tsk_2'"
    }
  ]) {
    it.effect(`a statement locks the rows of ${table} in the order of their key`, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const org_id = yield* OrgId.generate
        const count = sql`
          WITH written AS (SELECT ${org_id}::text AS org_id, ${sql.literal(rows)}), ${counts(sql, "written", 1)}
          SELECT count(*) FROM written
        `
        yield* count
        // A row for each slot, whichever the next connection adds to.
        const [row] = yield* sql<{ readonly columns: string }>`
          SELECT string_agg(column_name, ', ' ORDER BY ordinal_position) FILTER (WHERE column_name <> 'slot') AS columns
          FROM information_schema.columns
          WHERE table_name = ${table}
        `
        const columns = sql.literal(row?.columns ?? "")
        yield* sql`
          INSERT INTO ${sql(table)} (${columns}, slot)
          SELECT ${columns}, n FROM ${sql(table)}, generate_series(0, 15) AS n WHERE org_id = ${org_id}
          ON CONFLICT DO NOTHING
        `
        /** Whether a statement that waits for the rows of `waited` has locked one of `other`. */
        const hasLocked = Effect.fnUntraced(function* (waited: string, other: string) {
          const locked = yield* Deferred.make<void>()
          const release = yield* Deferred.make<void>()
          const lock = (condition: string) =>
            sql`SELECT slot FROM ${sql(table)} WHERE org_id = ${org_id} AND ${sql.literal(condition)} FOR UPDATE SKIP LOCKED`
          const holder = yield* Effect.forkChild(
            transaction(
              lock(waited).pipe(
                Effect.andThen(Deferred.succeed(locked, undefined)),
                Effect.andThen(Deferred.await(release))
              )
            )
          )
          yield* Deferred.await(locked)
          // On a connection of its own: the statements below must not wait behind it.
          const counting = yield* Effect.forkChild(transaction(count))
          yield* waitForBlockedStatements(1)
          const free = yield* lock(other)
          yield* Deferred.succeed(release, undefined)
          yield* Effect.all([Fiber.join(holder), Fiber.join(counting)])
          return free.length < 16
        })
        assert.isTrue(yield* hasLocked(last, first), "the first row is locked before the last")
        assert.isFalse(yield* hasLocked(first, last), "the last row is not locked before the first")
      })
    )
  }
})
