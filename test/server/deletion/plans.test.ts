import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { gzipSync } from "node:zlib"
import { OrgId, TaskId } from "../../../src/domain/Ids.ts"
import { deleteExpiredSession } from "../../../src/server/approvals/deleteExpiredSession.ts"
import { findSessionAfter } from "../../../src/server/approvals/deleteSessions.ts"
import { StoredUsage } from "../../../src/server/identity/StoredUsage.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { deleteExpiredFeedback, deleteExpiredRuns } from "../../../src/server/tasks/deleteExpired.ts"
import { lockDueDeletion } from "../../../src/server/tasks/deletionRows.ts"
import {
  deleteResults,
  deleteRunsOfTask,
  eraseExamplesOfSubject,
  eraseRunsOfSubject
} from "../../../src/server/tasks/deletionSteps.ts"
import { removeErasedSpans } from "../../../src/server/telemetry/Spans/removeErasedSpans.ts"
import { TestDatabase } from "../../support/postgres.ts"
import { layerNoLimits } from "../../support/layerNoLimits.ts"

/** The tables that an effect reads as a whole in a transaction, with the number of rows that it reads so. */
const tablesReadWhole = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    transaction(
      Effect.andThen(
        effect,
        sql`
          SELECT relname, seq_tup_read::int AS rows
          FROM pg_stat_xact_user_tables
          WHERE seq_tup_read > 0
            AND relname <> 'tasks'
        `
      )
    )
  )

const live = StoredUsage.layer.pipe(Layer.provide(layerNoLimits), Layer.provideMerge(TestDatabase.layerSql))

layer(live, { excludeTestServices: true })("Plans of deletions", (it) => {
  it.effect("no step reads a whole table", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const org_id = yield* OrgId.generate
      const task_id = yield* TaskId.generate
      const usage = yield* StoredUsage
      const cutoff = DateTime.makeUnsafe("2026-01-01T00:00:00Z")
      yield* sql`
        INSERT INTO tasks (
          org_id, task_id, name, instructions, input_schema, answer_schema, input_schema_digest, answer_schema_digest, provider,
          live_release_id, created_at, created_by_id, created_by_name
        )
        VALUES (${org_id}, ${task_id}, 'task', '', '{}', '{}', '', '', '{}', 'rel', now(), 'key', 'name')
      `
      // Rows of many organizations, tasks and times, so that reading a whole table costs more than an index.
      yield* sql`
        INSERT INTO deletions (
          org_id, deletion_id, kind, target_id, status, phase, due_at, created_at, created_by_id, created_by_name
        )
        SELECT
          'org_' || n % 100, 'del_' || n, 'task', 'tsk_' || n, 'completed', 'begin',
          CASE WHEN n % 500 = 0 THEN now() END, now(), 'key', 'name'
        FROM generate_series(1, 20000) AS n
      `
      yield* sql`
        INSERT INTO erased_traces
        SELECT 'org_' || n % 100, md5(n::text), now(), now() + n * interval '1 second'
        FROM generate_series(1, 20000) AS n
      `
      yield* sql`
        INSERT INTO runs (
          org_id, trace_id, run_id, task_id, release_id, source, status, input, metadata, provider_calls, created_at, created_by_id,
          created_by_name, bytes
        )
        SELECT
          'org_' || n % 10, md5(n::text), 'run_' || md5(n::text), 'tsk_' || n % 20, 'rel', 'logged', 'succeeded', '{}', '{}', 0, now(),
          'key', 'name', 4
        FROM generate_series(1, 20000) AS n
      `
      yield* sql`
        INSERT INTO feedback (
          org_id, feedback_id, task_id, trace_id, run_id, score, bytes, status, created_at, created_by_id, created_by_name,
          author
        )
        SELECT
          'org_' || n % 10, 'fbk_' || md5(n::text), 'tsk_' || n % 20, md5(n::text), 'run_' || md5(n::text), 1, 0, 'recorded', now(),
          'key', 'name', 'key'
        FROM generate_series(1, 20000) AS n
      `
      yield* sql`
        INSERT INTO agent_sessions (org_id, session_id, trace_id, metadata, created_at, created_by_id, created_by_name)
        SELECT 'org_' || n % 10, 'ses_' || md5(n::text), md5(n::text), '{}', now(), 'key', 'name'
        FROM generate_series(1, 20000) AS n
      `
      yield* sql`
        INSERT INTO comparisons (
          org_id, comparison_id, task_id, task_revision, live_release_id, candidate_instructions, candidate_provider, dataset_id,
          status, example_count, tally, created_at, created_by_id, created_by_name
        )
        SELECT
          CASE WHEN n % 2 = 0 THEN ${org_id} ELSE 'org_' || n % 10 END, 'cmp_' || md5(n::text), 'tsk_' || n % 20, 1, 'rel', '', '{}',
          'dst_' || n % 20, 'completed', 1, '{}', now(), 'key', 'name'
        FROM generate_series(1, 20000) AS n
      `
      for (const table of [
        "deletions",
        "erased_traces",
        "runs",
        "feedback",
        "agent_sessions",
        "comparisons"
      ]) {
        yield* sql.unsafe(`ANALYZE ${table}`)
      }

      const now = DateTime.makeUnsafe("2026-11-23T00:00:00Z")
      const expiry = { org_id, now, cutoff }
      const deps = { sql, usage, now }
      const span = { traceId: "1".repeat(32), spanId: "2".repeat(16), parentSpanId: "3".repeat(16) }
      const request = { resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] }
      const subject = { key: "customer", digest: new Uint8Array(32) }
      const steps: Readonly<Record<string, Effect.Effect<unknown, unknown>>> = {
        claim: lockDueDeletion(sql, now),
        expired_runs: deleteExpiredRuns(sql, usage, expiry),
        expired_feedback: deleteExpiredFeedback(sql, usage, expiry),
        expired_sessions: deleteExpiredSession(sql, usage, expiry),
        runs_of_task: deleteRunsOfTask(deps, org_id, task_id, null),
        comparisons_of_task: deleteResults(deps, org_id, { task_id }, null),
        results_of_version: deleteResults(deps, org_id, { dataset_id: "dst_none" }, null),
        runs_of_subject: eraseRunsOfSubject(deps, org_id, subject, null),
        examples_of_subject: eraseExamplesOfSubject(deps, org_id, subject, null),
        sessions_of_subject: findSessionAfter(sql, org_id, null, sql`true`),
        erased_spans: removeErasedSpans(sql, org_id, gzipSync(JSON.stringify(request)))
      }
      for (const [name, step] of Object.entries(steps)) {
        assert.deepStrictEqual(yield* tablesReadWhole(step), [], name)
      }
      // The organization has twice as many comparisons as a step reads.
      const { cursor } = yield* transaction(deleteResults(deps, org_id, { dataset_id: "dst_none" }, null))
      assert.isNotNull(cursor)
      // The measure finds a statement without an index.
      const whole = yield* tablesReadWhole(sql`SELECT 1 FROM runs WHERE failure = 'none'`)
      assert.deepStrictEqual(whole, [{ relname: "runs", rows: 20_000 }])
    })
  )
})
