import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { Countersign } from "../../src/testing/index.ts"
import { cli } from "../support/cli.ts"
import { service } from "../support/service.ts"
import { sortingTask } from "../support/tasks.ts"

/** A task, and a function that imports these lines into it. */
const newDesk = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const key = yield* countersign.key({}, organization)
  const admin = yield* countersign.clientWith(key)
  const { id } = yield* admin.tasks.create({ payload: sortingTask })
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-runs-"))),
    (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
  )
  const file = path.join(directory, "runs.jsonl")
  const importLines = Effect.fnUntraced(function* (lines: ReadonlyArray<string>) {
    yield* Effect.promise(() => writeFile(file, lines.join("\n")))
    return yield* cli(["runs", "import", "--url", countersign.url, "--task", id, file], {
      COUNTERSIGN_KEY: Redacted.value(key)
    })
  })
  return { admin, params: { id: id }, file, importLines }
})

const line = (id: string, more: object = {}) =>
  JSON.stringify({ id, input: { text: id }, answer: { category: "other" }, ...more })

layer(service(), { excludeTestServices: true })("countersign runs import", (it) => {
  it.effect("imports a file in requests of 500 runs, and nothing twice", () =>
    Effect.gen(function* () {
      const { admin, importLines, params } = yield* newDesk("cli")
      const lines = Array.from({ length: 1_100 }, (_, index) => line(`run ${index}`, { score: 1 }))
      const first = yield* importLines([...lines, ""])
      assert.deepStrictEqual(first, { ok: true, out: "1,100 runs imported, 0 duplicates", err: "" })
      const second = yield* importLines([...lines, line("new")])
      assert.strictEqual(second.out, "1 run imported, 1,100 duplicates")
      const { entries } = yield* admin.auditLog.list({ query: { action: "runs.imported" } })
      assert.deepStrictEqual(
        entries.map(({ detail }) => detail["runs"]),
        [1, 100, 500, 500]
      )
      assert.lengthOf((yield* admin.runs.list({ params, query: { score: 1, limit: 1 } })).runs, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("names each line that is not imported with its problem, and imports the others", () =>
    Effect.gen(function* () {
      const { importLines } = yield* newDesk("faulty")
      const { err, ok, out } = yield* importLines([
        line("a"),
        "no JSON",
        line("b", { answer: { category: "sales" } }),
        `{"id":"c","input":{"text":"c"}}`,
        line("d")
      ])
      assert.isFalse(ok)
      assert.strictEqual(out, "2 runs imported, 0 duplicates")
      assert.match(err, /^line 2: /m)
      assert.match(err, /^line 3: #\/answer\/category /m)
      assert.match(err, /^line 4: .*answer/m)
      assert.match(err, /3 lines were not imported$/)
    }).pipe(Effect.scoped)
  )

  it.effect("imports the lines after one that is too long", () =>
    Effect.gen(function* () {
      const { importLines } = yield* newDesk("long")
      const { err, ok, out } = yield* importLines([line("a"), line("b".repeat(4 * 2 ** 20)), line("c"), "{"])
      assert.isFalse(ok)
      assert.strictEqual(out, "2 runs imported, 0 duplicates")
      assert.match(err, /^line 2: is longer than 3145728 bytes$/m)
      assert.match(err, /^line 4: /m)
      assert.match(err, /2 lines were not imported$/)
    }).pipe(Effect.scoped)
  )

  it.effect("says where it looks for the key, and what the service answers to another", () =>
    Effect.gen(function* () {
      const { url } = yield* Countersign
      const task = `tsk_${"0".repeat(12)}7${"0".repeat(3)}8${"0".repeat(15)}`
      const { file, importLines } = yield* newDesk("keys")
      const args = ["runs", "import", "--url", url, "--task", task, file]
      const missing = yield* cli(args)
      assert.include(missing.err, "set COUNTERSIGN_KEY")
      yield* importLines([line("a")])
      const unknown = yield* cli(args, { COUNTERSIGN_KEY: "csk_unknown" })
      assert.isFalse(unknown.ok)
      assert.notInclude(unknown.err, "csk_unknown")
    }).pipe(Effect.scoped)
  )
})
