import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { DatasetId, OrgId, TaskId, TraceId } from "../../../src/domain/Ids.ts"
import { StoredUsage } from "../../../src/server/identity/StoredUsage.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { acquireDatasetLock } from "../../../src/server/tasks/Datasets/datasetLock.ts"
import { deleteExpiredFeedback, deleteExpiredRuns } from "../../../src/server/tasks/deleteExpired.ts"
import { deleteRuns } from "../../../src/server/tasks/deleteRuns.ts"
import {
  deleteExamplesOfTask,
  deleteExamplesOfVersion,
  eraseExamplesOfSubject,
  type StepResult
} from "../../../src/server/tasks/deletionSteps.ts"
import { inputsOf, orgIdOf, recomputedDigest } from "../../support/deletion.ts"
import { createDesk } from "../../support/feedback.ts"
import { service } from "../../support/service.ts"
import { sortingExamples } from "../../support/tasks.ts"

const EXAMPLES = 450

/** A task whose second dataset version adds many examples, with results of comparisons, most of them of one example. */
const createLargeDataset = Effect.fnUntraced(function* (organization: string) {
  const sql = yield* SqlClient.SqlClient
  const desk = yield* createDesk(organization)
  const { admin, dataset, params } = desk
  const org_id: OrgId = OrgIdOf(yield* orgIdOf(organization))
  const second = yield* admin.datasets.create({
    params,
    payload: {
      base_dataset_id: dataset.id,
      examples: sortingExamples(
        ["first of many", "other"],
        ...Array.from({ length: EXAMPLES - 1 }, (_, n) => [`one of many ${n}`, "other"] as const)
      )
    }
  })
  yield* sql`
    INSERT INTO comparison_results (org_id, comparison_id, example_id, candidate, live)
    SELECT org_id, 'cmp_' || n, example_id, '{}', '{}'
    FROM dataset_examples
      CROSS JOIN LATERAL generate_series(1, CASE ordinal WHEN 2 THEN 25000 ELSE 20 END) AS n
    WHERE org_id = ${org_id}
      AND first_version = 2
  `
  return { ...desk, org_id, second }
})

const OrgIdOf = (id: OrgId | ""): OrgId => (id === "" ? assert.fail("no organization") : id)

/** The result of a transaction, and how many rows it deleted, by table. */
interface Transaction<A> {
  readonly result: A
  readonly deleted: Readonly<Record<string, number>>
}

/** Runs an effect in a transaction. Returns its result, and what it deleted, by table. */
const inTransaction = Effect.fnUntraced(function* <A, E, R>(effect: Effect.Effect<A, E, R>) {
  const sql = yield* SqlClient.SqlClient
  // Counts of earlier transactions may be in it too.
  const counts = Effect.map(
    sql<{ readonly relname: string; readonly rows: number }>`
      SELECT relname, n_tup_del::int AS rows
      FROM pg_stat_xact_user_tables
    `,
    (rows) => new Map(rows.map((row) => [row.relname, row.rows]))
  )
  return yield* transaction(
    Effect.gen(function* () {
      const before = yield* counts
      const result = yield* effect
      const deleted: Readonly<Record<string, number>> = Object.fromEntries(
        Array.from(yield* counts, ([table, rows]) => [table, rows - (before.get(table) ?? 0)])
      )
      const transaction: Transaction<A> = { result, deleted }
      return transaction
    })
  )
})

/** Runs the steps of a phase, each in a transaction of its own. Returns what each deleted. */
const runSteps = Effect.fnUntraced(function* <E, R>(
  step: (cursor: string | null) => Effect.Effect<StepResult, E, R>
) {
  const transactions: Array<Readonly<Record<string, number>>> = []
  let from: string | null = null
  for (;;) {
    const { deleted, result }: Transaction<StepResult> = yield* inTransaction(step(from))
    transactions.push(deleted)
    if (result.cursor === null) return transactions
    from = result.cursor
  }
})

/** Asserts that no transaction deleted more than a bounded number of rows, and that all of them deleted everything. */
const assertBounded = (
  transactions: ReadonlyArray<Readonly<Record<string, number>>>,
  { examples = EXAMPLES, perTransaction = 200 } = {}
) => {
  const rowsOf = (table: string) => transactions.map((deleted) => deleted[table] ?? 0)
  const total = (table: string) => rowsOf(table).reduce((sum, rows) => sum + rows, 0)
  assert.isAtMost(Math.max(...rowsOf("comparison_results")), 20_000)
  assert.isAtMost(Math.max(...rowsOf("dataset_examples")), perTransaction)
  assert.strictEqual(total("comparison_results"), 25_000 + (EXAMPLES - 1) * 20)
  assert.strictEqual(total("dataset_examples"), examples)
}

const deps = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return { sql, usage: yield* StoredUsage, now: yield* (yield* StoreClock).now }
})

/** Feedback on a run, each with a correction that became one of the examples of the second version, as if promoted one by one. */
const insertPromoted = Effect.fnUntraced(function* (
  org_id: OrgId,
  task_id: TaskId,
  dataset_id: DatasetId,
  trace_id: TraceId,
  count: number
) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO feedback (
      org_id, feedback_id, task_id, trace_id, run_id, score, correction, bytes, status, dataset_id, created_at, created_by_id,
      created_by_name, author
    )
    SELECT
      org_id, 'fbk_' || lpad(n::text, 32, '0'), task_id, trace_id, run_id, -1, '{"category":"other"}', 20, 'promoted', ${dataset_id},
      '2026-01-01', 'key', 'name', 'author_' || n
    FROM runs
      CROSS JOIN generate_series(1, ${count}::int) AS n
    WHERE org_id = ${org_id}
      AND trace_id = ${trace_id}
  `
  yield* sql`
    UPDATE dataset_examples
    SET source_feedback_id = 'fbk_' || lpad((ordinal - 1)::text, 32, '0')
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND first_version = 2
      AND ordinal - 1 <= ${count}::int
  `
})

layer(service(), { excludeTestServices: true })("Steps of large deletions", (it) => {
  it.effect("the erasure of a subject with many examples and results takes short transactions", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, org_id, params, second } = yield* createLargeDataset("large erasure")
      const digest = new Uint8Array(32)
      yield* sql`
        INSERT INTO example_subjects (org_id, digest, task_id, example_id)
        SELECT org_id, ${digest}, task_id, example_id
        FROM dataset_examples
        WHERE org_id = ${org_id}
          AND first_version = 2
      `
      const services = yield* deps
      const transactions = yield* runSteps((cursor) =>
        eraseExamplesOfSubject(services, org_id, { digest }, cursor)
      )
      assertBounded(transactions)
      assert.deepStrictEqual(yield* inputsOf(admin, second.id), ["where is my parcel"])
      const found = yield* admin.datasets.get({ params: { id: second.id } })
      assert.deepInclude(found, { example_count: 1, examples_erased: EXAMPLES })
      // The tombstones verify the digest.
      assert.strictEqual(yield* recomputedDigest(admin, second.id), second.content_digest)
      const left = yield* sql`SELECT 1 FROM example_subjects WHERE org_id = ${org_id}`
      assert.lengthOf(left, 0)
      const third = yield* admin.datasets.create({
        params,
        payload: { base_dataset_id: second.id, examples: sortingExamples(["after it", "other"]) }
      })
      assert.deepInclude(third, { example_count: 2, examples_erased: 0 })
      assert.strictEqual(yield* recomputedDigest(admin, third.id), third.content_digest)
    })
  )

  it.effect("the deletion of a version with many examples and results takes short transactions", () =>
    Effect.gen(function* () {
      const { admin, org_id, params, second } = yield* createLargeDataset("large version")
      const { examples } = yield* admin.datasets.listExamples({
        params: { id: second.id },
        query: { limit: 100 }
      })
      let base = second.id
      let remove = examples.filter(({ input }) => input["text"] !== "where is my parcel").map(({ id }) => id)
      while (remove.length > 0) {
        const { id } = yield* admin.datasets.create({
          params,
          payload: { base_dataset_id: base, examples: sortingExamples([`after ${base}`, "other"]), remove }
        })
        base = id
        const page = yield* admin.datasets.listExamples({ params: { id }, query: { limit: 100 } })
        remove = page.examples
          .filter(({ input }) => JSON.stringify(input).includes("of many"))
          .map(({ id }) => id)
      }
      const sql = yield* SqlClient.SqlClient
      // Only the second version has them, and it is deleted.
      yield* sql`
        DELETE FROM datasets
        WHERE org_id = ${org_id}
          AND version > 1
          AND dataset_id <> ${base}
      `
      const services = yield* deps
      const transactions = yield* runSteps((cursor) =>
        deleteExamplesOfVersion(services, org_id, params.id, 2, cursor)
      )
      assert.isAtMost(Math.max(...transactions.map((deleted) => deleted["comparison_results"] ?? 0)), 20_000)
      assert.isAtMost(Math.max(...transactions.map((deleted) => deleted["dataset_examples"] ?? 0)), 200)
      const [left] =
        yield* sql`SELECT count(*)::int AS results FROM comparison_results WHERE org_id = ${org_id}`
      assert.deepStrictEqual(left, { results: 0 })
    })
  )

  it.effect("the deletion of a task with many examples and results takes short transactions", () =>
    Effect.gen(function* () {
      const { org_id, params } = yield* createLargeDataset("large task")
      const services = yield* deps
      const transactions = yield* runSteps((cursor) =>
        deleteExamplesOfTask(services, org_id, params.id, cursor)
      )
      // And the example of the first version.
      assertBounded(transactions, { examples: EXAMPLES + 1, perTransaction: 2_000 })
    })
  )

  it.effect("the deletion of a run with many promoted corrections takes short transactions", () =>
    Effect.gen(function* () {
      const { admin, org_id, params, run, second } = yield* createLargeDataset("large run")
      const { id: task_id } = params
      const trace_id = yield* run("corrected often")
      yield* insertPromoted(org_id, task_id, second.id, trace_id, EXAMPLES)
      const { now, sql, usage } = yield* deps
      const selection = { org_id, task_id, trace_ids: [trace_id] }
      const transactions: Array<Readonly<Record<string, number>>> = []
      for (let more = true; more;) {
        const { deleted, result } = yield* inTransaction(
          Effect.andThen(
            acquireDatasetLock(sql, org_id, task_id),
            deleteRuns(sql, usage, selection, { erasesExamples: true, now }, true)
          )
        )
        transactions.push(deleted)
        more = result?.more === true
      }
      assertBounded(transactions)
      assert.deepInclude(transactions.at(-1), { runs: 1, feedback: 50 })
      assert.strictEqual(yield* recomputedDigest(admin, second.id), second.content_digest)
    })
  )

  it.effect("a correction whose example has many results is deleted by one request", () =>
    Effect.gen(function* () {
      const { admin, org_id, params, run, second } = yield* createLargeDataset("large feedback")
      const trace_id = yield* run("corrected once")
      yield* insertPromoted(org_id, params.id, second.id, trace_id, 1)
      const { feedback } = yield* admin.feedback.list({ query: { task_id: params.id } })
      const [{ id } = assert.fail("no feedback")] = feedback
      yield* admin.feedback.remove({ params: { id } })
      const found = yield* admin.datasets.get({ params: { id: second.id } })
      assert.deepInclude(found, { example_count: EXAMPLES, examples_erased: 1 })
      const { entries } = yield* admin.auditLog.list({ query: { action: "feedback.deleted" } })
      assert.deepInclude(entries[0]?.detail, { examples: 1 })
      assert.lengthOf(entries, 1)
    })
  )

  it.effect("what an erasure finds by is kept in short transactions, also of runs with much metadata", () =>
    Effect.gen(function* () {
      const metadata = { customer: "c-1", note: "x".repeat(16_000) }
      for (const kind of ["feedback", "runs"] as const) {
        const { admin, org_id, params, second } = yield* createLargeDataset(`large metadata, ${kind}`)
        const { id: task_id } = params
        const { trace_id } = yield* admin.tasks.run({
          params,
          payload: { input: { text: "a" }, answer: { category: "other" }, metadata }
        })
        yield* insertPromoted(org_id, task_id, second.id, trace_id, 70)
        const { now, sql, usage } = yield* deps
        const expiry = { org_id, now, cutoff: DateTime.add(now, { days: 1 }) }
        const deleted: Array<object> = []
        for (let isOver = false; !isOver;) {
          const { deleted: counted, isOver: isLast } = yield* transaction(
            kind === "feedback"
              ? deleteExpiredFeedback(sql, usage, expiry)
              : deleteExpiredRuns(sql, usage, expiry)
          )
          deleted.push(counted)
          isOver = isLast
        }
        assert.deepStrictEqual(
          deleted,
          kind === "feedback"
            ? [{ feedback: 32 }, { feedback: 32 }, { feedback: 6 }]
            : [{ feedback: 32 }, { feedback: 32 }, { runs: 1, feedback: 6 }]
        )
        const [kept] = yield* sql`
          SELECT count(*)::int AS rows, count(DISTINCT example_id)::int AS examples
          FROM example_subjects
          WHERE org_id = ${org_id}
        `
        assert.deepStrictEqual(kept, { rows: 140, examples: 70 })
      }
    })
  )

  it.effect("a run stays until the feedback that arrives while it is selected is deleted too", () =>
    Effect.gen(function* () {
      const { correct, run } = yield* createDesk("feedback meanwhile")
      const org_id = OrgIdOf(yield* orgIdOf("feedback meanwhile"))
      const trace_id = yield* run("rated often")
      yield* correct(trace_id, { category: "other" })
      const { now, sql, usage } = yield* deps
      const submitMany = sql`
        INSERT INTO feedback (
          org_id, feedback_id, task_id, trace_id, score, bytes, status, created_at, created_by_id, created_by_name, run_id, author
        )
        SELECT
          org_id, 'fbk_' || n, task_id, trace_id, score, bytes, 'recorded', created_at, created_by_id, created_by_name, run_id,
          'author ' || n
        FROM feedback
          CROSS JOIN generate_series(1, 1500) AS n
        WHERE org_id = ${org_id}
      `
      let statements = 0
      const meanwhile = new Proxy(sql, {
        // The first statement selects the runs.
        apply: (target, self, args): unknown => {
          const statement = Reflect.apply(target, self, args)
          return ++statements === 2 ? Effect.andThen(submitMany, statement) : statement
        }
      })
      const expiry = { org_id, now, cutoff: DateTime.add(now, { days: 1 }) }
      const first = yield* transaction(deleteExpiredRuns(meanwhile, usage, expiry))
      assert.deepStrictEqual(first, { deleted: { feedback: 1_000 }, isOver: false })
      const second = yield* transaction(deleteExpiredRuns(sql, usage, expiry))
      assert.deepStrictEqual(second.deleted, { runs: 1, feedback: 501 })
      assert.lengthOf(yield* sql`SELECT 1 FROM feedback WHERE org_id = ${org_id}`, 0)
    })
  )
})
