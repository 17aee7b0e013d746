import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { Client } from "../../src/client/Client.ts"
import * as ApiKeyFormat from "../../src/domain/identity/ApiKeyFormat.ts"
import { addedMetadata } from "../../src/server/tasks/runMetadata.ts"
import { completed, inputsOf, recomputedDigest, rowsOfTask } from "../support/deletion.ts"
import { eventually } from "../support/eventually.ts"
import { TestDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"
import { sortingExamples, sortingTask } from "../support/tasks.ts"

const RUNS = 3_000

layer(TestDatabase.layerSql, { excludeTestServices: true })("Deletions", (it) => {
  it.effect(
    "a deletion and an erasure survive killed services, delete everything, and nothing else",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { url } = yield* TestDatabase
        const { key } = yield* ApiKeyFormat.generateApiKey
        const environment = {
          PORT: "0",
          DATABASE_URL: Redacted.value(url),
          COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
          COUNTERSIGN_ADMIN_KEY: Redacted.value(key)
        }
        const start = Effect.gen(function* () {
          const service = yield* spawnCli(["serve"], environment)
          const out = yield* service.waitForStdout(/is ready[^]+address +http:\S+\n/)
          const address = /address +(http:\S+)/.exec(out)?.[1] ?? assert.fail(out)
          const client = yield* Effect.provide(Client, Client.layer({ url: address, key, retries: 0 }))
          return { service, client }
        })

        const first = yield* start
        const create = Effect.fnUntraced(function* (text: string) {
          const task = yield* first.client.tasks.create({ payload: sortingTask })
          const params = { id: task.id }
          const examples = sortingExamples([text, "other"])
          const dataset = yield* first.client.datasets.create({ params, payload: { examples } })
          const run = yield* first.client.tasks.run({
            params,
            payload: { input: { text }, answer: { category: "other" }, metadata: { customer: "gone" } }
          })
          yield* first.client.feedback.create({ payload: { inference_log_id: run.trace_id, score: 1 } })
          return { task, params, dataset, run }
        })
        const doomed = yield* create("doomed")
        const kept = yield* create("kept")
        // Copies of the run, each with feedback and metadata; of every tenth run of the other task, the customer is another one.
        for (const { run } of [doomed, kept]) {
          yield* sql`
            WITH copies AS (
              INSERT INTO runs
              SELECT (json_populate_record(
                runs,
                json_build_object(
                  'trace_id', md5(task_id || n),
                  'run_id', 'run_' || substr(run_id, 5, 20) || lpad(to_hex(n), 12, '0'),
                  'metadata', CASE WHEN n % 10 = 0 THEN '{"customer":"stays"}'::json ELSE metadata END
                )
              )).*
              FROM runs
                CROSS JOIN generate_series(1, ${RUNS}::int) AS n
              WHERE trace_id = ${run.trace_id}
              RETURNING org_id, task_id, run_id, metadata
            ), ${addedMetadata(sql, sql`SELECT * FROM copies`)}
            SELECT 1
          `
        }
        yield* sql`
          INSERT INTO feedback
          SELECT (json_populate_record(
            feedback,
            json_build_object('trace_id', runs.trace_id, 'run_id', runs.run_id, 'feedback_id', 'fbk_' || runs.trace_id)
          )).*
          FROM feedback
            JOIN runs USING (org_id, task_id)
          WHERE runs.trace_id <> feedback.trace_id
        `
        // Runs are deleted in the order of their ids. While the last one is locked, a deletion cannot end before its service is killed.
        const unfinished = <A, E, R>(task_id: string, use: Effect.Effect<A, E, R>) =>
          sql.withTransaction(
            Effect.andThen(
              sql`
                SELECT 1
                FROM runs
                WHERE task_id = ${task_id}
                  AND metadata->>'customer' = 'gone'
                ORDER BY run_id DESC
                LIMIT 1
                FOR SHARE
              `,
              use
            )
          )
        // Kills the service once a part is deleted, and starts the next one.
        const killAt = Effect.fnUntraced(function* (
          running: Effect.Success<typeof start>,
          id: Parameters<typeof completed>[1],
          runs: number
        ) {
          yield* eventually(
            sql<{ readonly runs: number }>`SELECT runs::int AS runs FROM deletions WHERE deletion_id = ${id}`,
            ([row]) => (row?.runs ?? 0) >= runs
          )
          yield* running.service.kill("SIGKILL")
          yield* running.service.ended
          const [row] = yield* sql<{ readonly status: string; readonly runs: number }>`
            SELECT status, runs::int AS runs FROM deletions WHERE deletion_id = ${id}
          `
          assert.strictEqual(row?.status, "running", "killed in the middle")
          return yield* start
        })
        const { deletion, third } = yield* unfinished(
          doomed.task.id,
          Effect.gen(function* () {
            const deletion = yield* first.client.tasks.remove({ params: doomed.params })
            const second = yield* killAt(first, deletion.id, 400)
            return { deletion, third: yield* killAt(second, deletion.id, 1_200) }
          })
        )
        const done = yield* completed(third.client, deletion.id)
        assert.deepStrictEqual(done.deleted, {
          runs: RUNS + 1,
          feedback: RUNS + 1,
          examples: 1,
          sessions: 0
        })
        assert.deepStrictEqual(yield* rowsOfTask(doomed.task.id), {})
        assert.deepInclude(yield* rowsOfTask(kept.task.id), { runs: RUNS + 1, feedback: RUNS + 1 })

        const { erasure, fourth } = yield* unfinished(
          kept.task.id,
          Effect.gen(function* () {
            const erasure = yield* third.client.deletions.erase({
              payload: { metadata_key: "customer", metadata_value: "gone" }
            })
            return { erasure, fourth: yield* killAt(third, erasure.id, 400) }
          })
        )
        const erased = yield* completed(fourth.client, erasure.id)
        const gone = RUNS - RUNS / 10 + 1
        assert.deepInclude(erased.deleted, { runs: gone, feedback: gone })
        const left = yield* sql`
          SELECT metadata->>'customer' AS customer, count(*)::int AS runs FROM runs GROUP BY 1
        `
        assert.deepStrictEqual(left, [{ customer: "stays", runs: RUNS / 10 }])
        const [orphans] = yield* sql`
          SELECT
            (SELECT count(*)::int FROM feedback WHERE trace_id NOT IN (SELECT trace_id FROM runs)) AS feedback,
            (SELECT count(*)::int FROM run_metadata WHERE run_id NOT IN (SELECT run_id FROM runs)) AS metadata
        `
        assert.deepStrictEqual(orphans, { feedback: 0, metadata: 0 })
        assert.deepStrictEqual(yield* inputsOf(fourth.client, kept.dataset.id), ["kept"])
        assert.strictEqual(
          yield* recomputedDigest(fourth.client, kept.dataset.id),
          kept.dataset.content_digest
        )
      }).pipe(Effect.scoped),
    300_000
  )
})
