import { assert, it } from "@effect/vitest"
import { Array, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Countersign } from "../../src/testing/index.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"
import { sortingTask } from "../support/tasks.ts"

const line = (number: number) =>
  `${JSON.stringify({ input: { text: `message ${number}` }, answer: { category: "other" } })}\n`

const lines = (count: number) => Array.makeBy(count, line).join("")

it.live(
  "a killed import leaves no examples, and the next import does not wait for it",
  () =>
    Effect.gen(function* () {
      const databaseUrl = yield* cloneDatabase
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const admin = yield* (yield* Countersign).client({}, "acme")
        const task = yield* admin.tasks.create({ payload: sortingTask })
        const params = { id: task.id }
        const startImport = spawnCli(["datasets", "import", "--org", "acme", "--task", task.id, "-"], {
          DATABASE_URL: Redacted.value(databaseUrl),
          COUNTERSIGN_MASTER_KEY: Buffer.from(Array.range(0, 31)).toString("base64")
        })
        const killed = yield* startImport
        // By then most examples are written, and the import waits for more lines.
        yield* killed.write(lines(10_400))
        yield* killed.waitForStderr(/10,000 lines read/)
        yield* killed.kill("SIGKILL")
        yield* killed.ended

        const next = yield* startImport
        yield* next.write(lines(3))
        yield* next.close
        const { err } = yield* next.ended
        assert.include(err, "version 1: 3 examples, 3 added, 0 replaced")
        const { datasets } = yield* admin.datasets.list({ params })
        assert.deepStrictEqual(
          datasets.map(({ example_count, version }) => ({ example_count, version })),
          [{ version: 1, example_count: 3 }]
        )
        const [count] = yield* sql`SELECT count(*)::int AS examples FROM dataset_examples`
        assert.deepStrictEqual(count, { examples: 3 })
        const { entries } = yield* admin.auditLog.list({ query: { action: "dataset.created" } })
        assert.lengthOf(entries, 1)
      }).pipe(Effect.provide(Countersign.layer({ databaseUrl })))
    }).pipe(Effect.scoped),
  120_000
)
