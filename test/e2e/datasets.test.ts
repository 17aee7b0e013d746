import { assert, it } from "@effect/vitest"
import { Array, Effect, Redacted } from "effect"
import { Countersign } from "../../src/testing/index.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"

/** Larger than the buffers of a pipe and of the database cursor together. */
const EXAMPLES = 800

it.live(
  "an export larger than a pipe is complete when its process has exited",
  () =>
    Effect.gen(function* () {
      const databaseUrl = yield* cloneDatabase
      yield* Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client({}, "acme")
        const task = yield* admin.tasks.create({
          payload: {
            name: "long answers",
            input_schema: { type: "object" },
            answer_schema: { type: "object" }
          }
        })
        const example = (number: number) => ({ input: { number }, answer: { text: "x".repeat(1_000) } })
        const dataset = yield* admin.datasets.create({
          params: { id: task.id },
          payload: { examples: Array.makeBy(EXAMPLES, example) }
        })
        const exporting = yield* spawnCli(["datasets", "export", "--org", "acme", dataset.id], {
          DATABASE_URL: Redacted.value(databaseUrl),
          COUNTERSIGN_MASTER_KEY: Buffer.from(Array.range(0, 31)).toString("base64")
        })
        const { code, err, out } = yield* exporting.ended
        assert.strictEqual(code, 0, err)
        assert.lengthOf(out.trim().split("\n"), EXAMPLES)
      }).pipe(Effect.provide(Countersign.layer({ databaseUrl })))
    }).pipe(Effect.scoped),
  120_000
)
