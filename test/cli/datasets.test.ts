import { assert, describe, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import type { Environment } from "../../src/server/config/Settings.ts"
import { Countersign } from "../../src/testing/index.ts"
import { cli } from "../support/cli.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { sortingTask } from "../support/tasks.ts"

/** An operator next to a running service: its environment, and a directory for files. */
class Operator extends Context.Service<
  Operator,
  { readonly environment: Environment; readonly file: (text: string) => Effect.Effect<string> }
>()("test/Operator") {
  static readonly layer = Layer.unwrap(
    Effect.gen(function* () {
      const databaseUrl = yield* cloneDatabase
      const directory = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-datasets-"))),
        (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
      )
      let files = 0
      return Layer.mergeAll(
        Countersign.layer({ databaseUrl }),
        Layer.succeed(
          Operator,
          Operator.of({
            environment: {
              DATABASE_URL: Redacted.value(databaseUrl),
              COUNTERSIGN_MASTER_KEY: Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString(
                "base64"
              )
            },
            file: (text) =>
              Effect.promise(async () => {
                const file = path.join(directory, `${files++}.jsonl`)
                await writeFile(file, text)
                return file
              })
          })
        )
      )
    })
  )
}

const run = (...args: ReadonlyArray<string>) =>
  Effect.flatMap(Operator, ({ environment }) => cli(args, environment))

const decodeLine = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.Struct({ input: Schema.Unknown, answer: Schema.Unknown }))
)

const newTask = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({}, organization)
  const { id } = yield* admin.tasks.create({ payload: sortingTask })
  return { admin, id, params: { id: id } }
})

const line = (text: string, category: string) =>
  `${JSON.stringify({ input: { text }, answer: { category } })}\n`

describe("countersign datasets", () => {
  layer(Operator.layer, { excludeTestServices: true })((it) => {
    it.effect("import creates a version from a file, the next import adds to it, and export prints it", () =>
      Effect.gen(function* () {
        const { file } = yield* Operator
        const { admin, id, params } = yield* newTask("acme")
        const first = yield* file(line("a", "other") + "\n" + line("b", "billing"))
        const imported = yield* run("datasets", "import", "--org", "acme", "--task", id, first)
        assert.include(imported.err, "version 1: 2 examples, 2 added, 0 replaced")
        const second = yield* file(line("b", "shipping") + line("c", "other").trimEnd())
        const next = yield* run("datasets", "import", "--org", "acme", "--task", id, second)
        assert.include(next.err, "version 2: 3 examples, 1 added, 1 replaced")
        assert.strictEqual((yield* admin.tasks.get({ params })).dataset_id, next.out)

        const exported = yield* run("datasets", "export", "--org", "acme", next.out)
        const lines = yield* Effect.forEach(exported.out.split("\n"), (text) => decodeLine(text))
        assert.sameDeepMembers(lines, [
          { input: { text: "a" }, answer: { category: "other" } },
          { input: { text: "b" }, answer: { category: "shipping" } },
          { input: { text: "c" }, answer: { category: "other" } }
        ])
      })
    )

    it.effect("export prints a table with a column per member, which marks formulas as text", () =>
      Effect.gen(function* () {
        const { file } = yield* Operator
        const { id } = yield* newTask("table")
        const lines = yield* file(line("=1+1", "other") + line('a "quoted", text', "billing"))
        const { out: dataset } = yield* run("datasets", "import", "--org", "table", "--task", id, lines)
        const { out } = yield* run("datasets", "export", "--org", "table", "--format", "csv", dataset)
        const [header, ...rows] = out.split("\n")
        assert.strictEqual(header, "id,source_feedback_id,input.text,answer.category")
        assert.sameMembers(
          rows.map((row) => row.replace(/^exm_[0-9a-f]{32},,/, "")),
          ["'=1+1,other", '"a ""quoted"", text",billing']
        )
      })
    )

    it.effect(
      "verify computes the digest of a version, also with erased examples, and fails if a row was changed",
      () =>
        Effect.gen(function* () {
          const { file } = yield* Operator
          const { admin, id, params } = yield* newTask("verified")
          const lines = yield* file(line("a", "other") + line("b", "billing"))
          yield* run("datasets", "import", "--org", "verified", "--task", id, lines)
          const { trace_id } = yield* admin.tasks.run({
            params,
            payload: { input: { text: "c" }, answer: { category: "other" } }
          })
          const corrected = yield* admin.feedback.create({
            payload: { inference_log_id: trace_id, score: -1, correction: { category: "billing" } }
          })
          yield* admin.feedback.stage({ params: { id: corrected.id } })
          const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
            params,
            query: {}
          })
          const { dataset } = yield* admin.feedback.promote({
            params,
            payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
          })
          yield* admin.feedback.remove({ params: { id: corrected.id } })
          const verified = yield* run("datasets", "verify", "--org", "verified", dataset.id)
          assert.strictEqual(verified.out, dataset.content_digest)
          assert.include(verified.err, "verified: 2 examples, 1 erased")
          const sql = yield* SqlClient.SqlClient
          yield* sql`
          UPDATE dataset_examples
          SET answer = '{"category":"shipping"}'
          WHERE task_id = ${id}
            AND input ->> 'text' = 'a'
        `
          const differs = yield* run("datasets", "verify", "--org", "verified", dataset.id)
          assert.isFalse(differs.ok)
          assert.include(differs.err, `but ${dataset.content_digest} was recorded`)
        })
    )

    it.effect("import reports its progress and handles thousands of examples", () =>
      Effect.gen(function* () {
        const { file } = yield* Operator
        const { admin, id } = yield* newTask("large")
        const many = yield* file(
          Array.from({ length: 12_000 }, (_, n) => line(`message ${n}`, "other")).join("")
        )
        const { err, out } = yield* run("datasets", "import", "--org", "large", "--task", id, many)
        assert.include(err, "10,000 lines read")
        const [dataset] = (yield* admin.datasets.list({ params: { id: id } })).datasets
        assert.strictEqual(dataset?.id, out)
        assert.strictEqual(dataset?.example_count, 12_000)
      })
    )

    it.effect("import names the line that does not match the schemas and imports nothing", () =>
      Effect.gen(function* () {
        const { file } = yield* Operator
        const { admin, id, params } = yield* newTask("refused")
        const wrong: Record<string, string> = {
          [line("a", "other") + line("b", "sales")]: "line 2: #/answer/category",
          [line("a", "other") + "\n{not json}\n"]: "line 3: expected a JSON object",
          '{"input":{"text":"a","text":"b"},"answer":{"category":"other"}}': "line 1: ",
          "\n\n": "the file contains no examples",
          // Within the limit in characters, but not in bytes.
          [line("語".repeat(3_000_000), "other")]: "line 1: is longer than 8388608 bytes"
        }
        for (const [text, problem] of Object.entries(wrong)) {
          const refused = yield* run(
            "datasets",
            "import",
            "--org",
            "refused",
            "--task",
            id,
            yield* file(text)
          )
          assert.isFalse(refused.ok)
          assert.include(refused.err, problem)
        }
        const missing = yield* run(
          "datasets",
          "import",
          "--org",
          "refused",
          "--task",
          id,
          "/nowhere/examples.jsonl"
        )
        assert.include(missing.err, "/nowhere/examples.jsonl")
        assert.isNull((yield* admin.tasks.get({ params })).dataset_id)
      })
    )

    it.effect("import rejects another organization's task", () =>
      Effect.gen(function* () {
        const { file } = yield* Operator
        const { id } = yield* newTask("owner")
        yield* newTask("stranger")
        const refused = yield* run(
          "datasets",
          "import",
          "--org",
          "stranger",
          "--task",
          id,
          yield* file(line("a", "other"))
        )
        assert.isFalse(refused.ok)
        assert.include(refused.err, "No such task in this organization.")
      })
    )
  })
})
