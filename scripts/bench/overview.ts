/**
 * The console's overview on a million approvals, deliveries, runs and feedback records of one organization in 30 days: the time of each
 * part, in this process.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../src/api/Authorization.ts"
import { Overview } from "../../src/server/console/Overview.ts"
import { ApiKeys } from "../../src/server/identity/ApiKeys.ts"
import { Countersign } from "../../src/testing/index.ts"
import { countRows } from "../../test/support/counts.ts"
import { line, machine } from "./measure.ts"

const ROWS = Number(process.env["BENCH_ROWS"] ?? "1000000")
const SEED_BATCH = 10_000
const ROUNDS = 9

/** Approvals by 200 tools and 20 people, one in ten without a decision, decided within seconds to hours. */
const seedApprovals = Effect.fnUntraced(function* (org_id: string, from: number, to: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO approvals (
      org_id, approval_id, session_id, step_id, tool, action_class, arguments_digest, status, stage, requested_at,
      requested_by_id, review_deadline_at, expires_at, timeout_action
    )
    SELECT
      ${org_id}, 'apr_' || lpad(n::text, 9, '0'), 'ses_1', 'step ' || n, 'tool.' || n % 200, 'write', '', 'pending', 'reviewer',
      now() - (n % 30) * interval '1 day' - interval '1 day' * random(), 'key_agent', now(), now(), 'reject'
    FROM generate_series(${from}::int, ${to}::int) AS n
  `
  yield* sql`
    UPDATE approvals
    SET
      status = CASE WHEN hashtext(step_id) % 10 = 0 THEN 'expired' WHEN hashtext(step_id) % 4 = 0 THEN 'rejected' ELSE 'approved' END,
      decision_source = CASE WHEN hashtext(step_id) % 10 = 0 THEN 'timeout' ELSE 'human' END,
      decided_at = requested_at + exp(2 + 6 * random()) * interval '1 second',
      decided_by_id = CASE WHEN hashtext(step_id) % 10 <> 0 THEN 'key_' || abs(hashtext(step_id)) % 20 END
    WHERE org_id = ${org_id}
      AND approval_id BETWEEN 'apr_' || lpad(${from}::int::text, 9, '0') AND 'apr_' || lpad(${to}::int::text, 9, '0')
  `
})

const seedDeliveries = Effect.fnUntraced(function* (org_id: string, from: number, to: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO deliveries (org_id, destination_id, delivery_id, channel, event_id, label, status, created_at)
    SELECT
      ${org_id}, 'nep_' || n % 50, 'ndl_' || lpad(n::text, 9, '0'), 'webhook', 'evt_' || n, 'approval.requested', 'pending',
      now() - (n % 30) * interval '1 day'
    FROM generate_series(${from}::int, ${to}::int) AS n
  `
  yield* sql`
    UPDATE deliveries
    SET status = CASE WHEN hashtext(event_id) % 50 = 0 THEN 'failed' ELSE 'delivered' END
    FROM generate_series(${from}::int, ${to}::int) AS n
    WHERE org_id = ${org_id}
      AND destination_id = 'nep_' || n % 50
      AND delivery_id = 'ndl_' || lpad(n::text, 9, '0')
  `
})

/** Runs of ten tasks with two releases each. */
const seedRuns = Effect.fnUntraced(function* (org_id: string, from: number, to: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO runs (
      org_id, trace_id, run_id, task_id, release_id, source, status, input, metadata, provider_calls, created_at,
      created_by_id, created_by_name, bytes
    )
    SELECT
      ${org_id}, 'trace' || n, 'run_' || lpad(n::text, 9, '0'), 'tsk_' || n % 10, 'rel_' || n % 20, 'provider', 'succeeded', '{}',
      '{}', 1, now() - (n % 30) * interval '1 day', 'key_1', 'agent', 4
    FROM generate_series(${from}::int, ${to}::int) AS n
  `
})

const seedFeedback = Effect.fnUntraced(function* (org_id: string, from: number, to: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO feedback (
      org_id, feedback_id, task_id, trace_id, score, bytes, status, created_at, created_by_id, created_by_name, author, run_id, release_id
    )
    SELECT
      ${org_id}, 'fbk_' || lpad(n::text, 9, '0'), 'tsk_' || n % 10, 'trace' || n, n % 3 - 1, 0, 'recorded',
      now() - (n % 30) * interval '1 day', 'key_1', 'Ada', 'key_1', 'run_' || lpad(n::text, 9, '0'), 'rel_' || n % 20
    FROM generate_series(${from}::int, ${to}::int) AS n
  `
})

/** Tasks and releases that the counts name: copies of a task with its first release. */
const seedNames = Effect.fnUntraced(function* (org_id: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO tasks
    SELECT copy.*
    FROM tasks
      CROSS JOIN generate_series(0, 9) AS n
      CROSS JOIN LATERAL jsonb_populate_record(
        tasks, jsonb_build_object('task_id', 'tsk_' || n, 'live_release_id', 'rel_' || n)
      ) AS copy
    WHERE tasks.org_id = ${org_id}
  `
  yield* sql`
    INSERT INTO releases
    SELECT copy.*
    FROM releases
      CROSS JOIN generate_series(0, 19) AS n
      CROSS JOIN LATERAL jsonb_populate_record(
        releases, jsonb_build_object('release_id', 'rel_' || n, 'task_id', 'tsk_' || n % 10)
      ) AS copy
    WHERE releases.org_id = ${org_id}
  `
})

await Effect.runPromise(
  Effect.gen(function* () {
    const { client, key } = yield* Countersign
    const keys = yield* ApiKeys
    const overview = yield* Overview
    const sql = yield* SqlClient.SqlClient
    const principal = yield* keys.verify(yield* key({}, "bench"))
    const { org_id } = principal
    console.log(machine())
    const admin = yield* client({}, "bench")
    const schema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] }
    yield* admin.tasks.create({
      payload: {
        name: "Task",
        instructions: "Sort.",
        input_schema: schema,
        answer_schema: schema,
        provider: { kind: "examples" }
      }
    })
    yield* seedNames(org_id)
    // Seeding takes minutes; the service's statements take at most seconds.
    const patiently = <A, E, R>(work: Effect.Effect<A, E, R>) =>
      sql.withTransaction(Effect.andThen(sql`SET LOCAL statement_timeout = 0`, work))
    for (const seed of [seedApprovals, seedDeliveries, seedRuns, seedFeedback])
      for (let from = 1; from <= ROWS; from += SEED_BATCH)
        yield* patiently(seed(org_id, from, Math.min(ROWS, from + SEED_BATCH - 1)))
    yield* patiently(countRows(org_id))
    yield* patiently(sql`ANALYZE`)
    console.log(
      `\nOverview of ${ROWS.toLocaleString("en")} approvals, deliveries, runs and feedback records\n`
    )
    for (const period of ["7d", "30d"] as const) {
      const parts = {
        approvals: Effect.provideService(overview.approvals(period), Authorized("approvals.read"), principal),
        feedback: Effect.provideService(overview.feedback(period), Authorized("feedback.read"), principal),
        deliveries: Effect.provideService(
          overview.deliveries(period),
          Authorized("org_config.read"),
          principal
        )
      }
      for (const [name, part] of Object.entries(parts)) {
        const times: Array<number> = []
        for (let round = 0; round < ROUNDS; round++) {
          const start = performance.now()
          yield* part
          times.push(performance.now() - start)
        }
        console.log(line(`${name}, ${period}`, times, "ms"))
      }
    }
    if (process.env["BENCH_EXPLAIN"] !== undefined) {
      for (const table of [
        "approval_counts",
        "approval_group_counts",
        "delivery_counts",
        "run_counts",
        "feedback_counts"
      ]) {
        const [size] = yield* sql<{ readonly rows: number; readonly bytes: string }>`
          SELECT (SELECT count(*)::int FROM ${sql(table)}) AS rows, pg_size_pretty(pg_total_relation_size(${table}::text::regclass)) AS bytes
        `
        console.log(`${table}: ${size?.rows} rows, ${size?.bytes}`)
      }
      for (const text of [
        "SELECT day::text, outcome, bucket, sum(closed), sum(escalated) FROM approval_counts WHERE org_id = $1 AND day >= current_date - 29 GROUP BY day, outcome, bucket",
        "SELECT name, sum(closed) FROM approval_group_counts WHERE org_id = $1 AND day >= current_date - 29 AND kind = 'tool' GROUP BY name ORDER BY 2 DESC LIMIT 10",
        "SELECT day, sum(positive) FROM (SELECT day, positive FROM feedback_counts WHERE org_id = $1 AND day >= current_date - 29 ORDER BY day DESC LIMIT 200000) AS c GROUP BY day",
        "SELECT count(*) FROM (SELECT 1 FROM approvals WHERE org_id = $1 AND status = 'pending' LIMIT 10001) AS c",
        "SELECT day, sum(delivered) FROM delivery_counts WHERE org_id = $1 AND day >= current_date - 29 GROUP BY day"
      ]) {
        const plan = yield* sql.unsafe<{ readonly "QUERY PLAN": string }>(
          `EXPLAIN (ANALYZE, BUFFERS OFF) ${text}`,
          [org_id]
        )
        console.log(`\n${text}\n${plan.map((row) => row["QUERY PLAN"]).join("\n")}`)
      }
    }
  }).pipe(Effect.provide(Countersign.layer()), Effect.scoped)
)
process.exit()
