import { assert, layer } from "@effect/vitest"
import { type Array as Arr, DateTime, Deferred, Effect, Fiber, Layer, type Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../src/api/Authorization.ts"
import type { PageRequest } from "../../../src/api/Pagination.ts"
import type { Example, NewExample } from "../../../src/domain/tasks/Dataset.ts"
import { DatasetId, type ExampleId, KeyId, OrgId, ReleaseId, TaskId } from "../../../src/domain/Ids.ts"
import { KnownSecrets } from "../../../src/server/secrets/KnownSecrets.ts"
import { Audit } from "../../../src/server/identity/Audit.ts"
import { StoredUsage } from "../../../src/server/identity/StoredUsage.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Datasets } from "../../../src/server/tasks/Datasets.ts"
import { acquireDatasetLock } from "../../../src/server/tasks/Datasets/datasetLock.ts"
import { CompiledSchemas } from "../../../src/server/tasks/CompiledSchemas.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"
import { TestDatabase } from "../../support/postgres.ts"
import { pointersOf } from "../../support/service.ts"
import { layerNoLimits } from "../../support/layerNoLimits.ts"

/** Inserts a task of a new organization. */
const newTask = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const org_id = yield* OrgId.generate
  const task_id = yield* TaskId.generate
  const release_id = yield* ReleaseId.generate
  const by = { id: yield* KeyId.generate, name: "Ada" }
  const now = yield* DateTime.now
  yield* sql`
    INSERT INTO tasks (
      org_id, task_id, name, instructions, input_schema, answer_schema, input_schema_digest, answer_schema_digest, provider,
      live_release_id, created_at, created_by_id, created_by_name
    )
    VALUES (${org_id}, ${task_id}, 'task', '', '{}', '{}', '', '', '{}', ${release_id}, now(), ${by.id}, ${by.name})
  `
  yield* sql`
    INSERT INTO releases (org_id, release_id, task_id, number, instructions, provider, created_at, created_by_id, created_by_name)
    VALUES (${org_id}, ${release_id}, ${task_id}, 1, '', '{}', now(), ${by.id}, ${by.name})
  `
  return { org_id, task_id, release_id, by, now }
})

const example = (input: string, answer: string): NewExample => ({
  input: { text: input },
  answer: { label: answer },
  source_feedback_id: null,
  origin: "made"
})

type Task = Effect.Success<typeof newTask>

const derive = (task: Task, base: DatasetId | null, ...examples: Arr.NonEmptyArray<NewExample>) =>
  Effect.flatMap(Datasets, (datasets) =>
    transaction(datasets.derive({ ...task, base }, Stream.fromIterable(examples)))
  )

/** Reads all examples of a version, in pages of two. */
const contents = (task: Task, id: DatasetId) =>
  Effect.gen(function* () {
    const datasets = yield* Datasets
    const all: Array<Example> = []
    let cursor: ExampleId | undefined
    do {
      const page = yield* datasets.examples(id, { limit: 2, ...(cursor === undefined ? {} : { cursor }) })
      all.push(...page.items)
      cursor = page.next_cursor ?? undefined
    } while (cursor !== undefined)
    return all.map(({ answer, input }) => [input["text"], answer["label"]])
  }).pipe(
    Effect.provideService(Authorized("datasets.read"), {
      org_id: task.org_id,
      actor: task.by,
      scopes: new Set(["datasets.read"] as const),
      groups: [],
      keyMakers: [],
      makers: []
    })
  )

const live = Datasets.layer.pipe(
  Layer.provide([CompiledSchemas.layer, Audit.layer, KnownSecrets.layerPolicyOnly, StoredUsage.layer]),
  Layer.provide([StoreClock.layer, layerNoLimits]),
  Layer.provideMerge(TestDatabase.layerSql)
)

layer(live, { excludeTestServices: true })("Datasets", (it) => {
  it.effect(
    "a new version adds examples, replaces those with the same input, and leaves earlier versions unchanged",
    () =>
      Effect.gen(function* () {
        const task = yield* newTask
        const first = yield* derive(task, null, example("a", "1"), example("b", "1"), example("c", "1"))
        assert.deepInclude(first.dataset, { version: 1, base_dataset_id: null, example_count: 3 })
        const second = yield* derive(task, first.dataset.id, example("b", "2"), example("d", "1"))
        assert.deepInclude(second, { added: 1, replaced: 1 })
        assert.deepInclude(second.dataset, {
          version: 2,
          base_dataset_id: first.dataset.id,
          example_count: 4
        })
        assert.deepStrictEqual(yield* contents(task, first.dataset.id), [
          ["c", "1"],
          ["b", "1"],
          ["a", "1"]
        ])
        assert.deepStrictEqual(yield* contents(task, second.dataset.id), [
          ["d", "1"],
          ["b", "2"],
          ["c", "1"],
          ["a", "1"]
        ])
      })
  )

  it.effect("a version has one example per input, whatever batch of the request repeats it", () =>
    Effect.gen(function* () {
      const task = yield* newTask
      const first = yield* derive(task, null, example("a", "1"), example("b", "1"), example("a", "2"))
      assert.deepInclude(first, { added: 2, replaced: 0, repeated: 1 })
      assert.strictEqual(first.dataset.example_count, 2)
      // More than a batch of 500.
      const many = Array.from({ length: 1_200 }, (_, index) => example(`n${index % 600}`, String(index)))
      const second = yield* derive(task, first.dataset.id, example("a", "3"), ...many, example("a", "4"))
      assert.deepInclude(second, { added: 600, replaced: 1, repeated: 601 })
      assert.strictEqual(second.dataset.example_count, 602)
      const found = new Map(
        (yield* contents(task, second.dataset.id)).map(([input, answer]) => [input, answer])
      )
      assert.deepStrictEqual(
        [found.get("a"), found.get("b"), found.get("n0"), found.get("n599")],
        ["4", "1", "600", "1199"]
      )
      assert.lengthOf(yield* contents(task, second.dataset.id), 602)
      // The digest is that of the same examples without repetitions.
      const other = yield* newTask
      const [last, ...rest] = yield* contents(task, second.dataset.id)
      const plain = ([input, answer]: ReadonlyArray<Schema.Json | undefined>): NewExample => ({
        input: { text: input ?? null },
        answer: { label: answer ?? null },
        source_feedback_id: null,
        origin: "made"
      })
      const { dataset } = yield* derive(other, null, plain(last!), ...rest.map(plain))
      assert.strictEqual(dataset.content_digest, second.dataset.content_digest)
    })
  )

  it.effect("a base that is not the newest version is refused", () =>
    Effect.gen(function* () {
      const task = yield* newTask
      const { dataset } = yield* derive(task, null, example("a", "1"))
      yield* derive(task, dataset.id, example("b", "1"))
      const refused = yield* Effect.flip(derive(task, dataset.id, example("c", "1")))
      assert.propertyVal(refused, "_tag", "DATASET_BASE_CHANGED")
    })
  )

  it.effect("of concurrent changes of the same base one succeeds", () =>
    Effect.gen(function* () {
      const task = yield* newTask
      const { dataset } = yield* derive(task, null, example("a", "1"))
      const outcomes = yield* Effect.all(
        Array.from({ length: 8 }, (_, index) =>
          Effect.result(derive(task, dataset.id, example("a", String(index))))
        ),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(
        outcomes.filter((outcome) => outcome._tag === "Success"),
        1
      )
    })
  )

  it.effect(
    "a change that waits for another replica's change of the same base is refused as out of date",
    () =>
      Effect.gen(function* () {
        const task = yield* newTask
        const { dataset } = yield* derive(task, null, example("a", "1"))
        const sql = yield* SqlClient.SqlClient
        yield* sql`
          UPDATE tasks
          SET provider = '{"kind": "examples", "model": "nearest", "min_score": 0}', input_schema = '{"type": "object"}',
            answer_schema = '{"type": "object"}'
          WHERE task_id = ${task.task_id}
        `
        const written = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const other = yield* Effect.forkChild(
          transaction(
            Effect.gen(function* () {
              const datasets = yield* Datasets
              yield* datasets.derive({ ...task, base: dataset.id }, Stream.make(example("b", "1")))
              yield* Deferred.succeed(written, undefined)
              yield* Deferred.await(commit)
            })
          )
        )
        yield* Deferred.await(written)
        const datasets = yield* Datasets
        const waiting = yield* datasets
          .create(task.task_id, {
            base_dataset_id: dataset.id,
            examples: [{ input: { text: "c" }, answer: { label: "1" } }]
          })
          .pipe(
            Effect.flip,
            Effect.provideService(Authorized("datasets.write"), {
              org_id: task.org_id,
              actor: task.by,
              scopes: new Set(["datasets.write"] as const),
              groups: [],
              keyMakers: [],
              makers: []
            }),
            Effect.forkChild
          )
        yield* waitForBlockedStatements(1)
        yield* Deferred.succeed(commit, undefined)
        yield* Fiber.join(other)
        assert.strictEqual((yield* Fiber.join(waiting))._tag, "DATASET_BASE_CHANGED")
      })
  )

  it.effect(
    "examples are checked against the schemas that another replica sets while the dataset is locked",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const task = yield* newTask
        const setSchemas = (answer_schema: string) => sql`
        UPDATE tasks
        SET provider = '{"kind": "examples", "model": "nearest", "min_score": 0}', input_schema = '{"type": "object"}',
          answer_schema = ${answer_schema}::json, answer_schema_digest = ${answer_schema}
        WHERE task_id = ${task.task_id}
      `
        yield* setSchemas('{"type": "object"}')
        const locked = yield* Deferred.make<void>()
        const changed = yield* Deferred.make<void>()
        const other = yield* Effect.forkChild(
          transaction(
            Effect.gen(function* () {
              yield* acquireDatasetLock(sql, task.org_id, task.task_id)
              yield* Deferred.succeed(locked, undefined)
              yield* Deferred.await(changed)
              yield* setSchemas('{"type": "object", "required": ["score"]}')
            })
          )
        )
        yield* Deferred.await(locked)
        const datasets = yield* Datasets
        const waiting = yield* datasets
          .create(task.task_id, { examples: [{ input: { text: "a" }, answer: { label: "1" } }] })
          .pipe(
            Effect.flip,
            Effect.provideService(Authorized("datasets.write"), {
              org_id: task.org_id,
              actor: task.by,
              scopes: new Set(["datasets.write"] as const),
              groups: [],
              keyMakers: [],
              makers: []
            }),
            Effect.forkChild
          )
        yield* waitForBlockedStatements(1)
        yield* Deferred.succeed(changed, undefined)
        yield* Fiber.join(other)
        const refused = yield* Fiber.join(waiting)
        assert.strictEqual(refused._tag, "INVALID_INPUT")
        assert.deepStrictEqual(pointersOf(refused), ["#/examples/0/answer/score"])
      })
  )

  it.effect("versions with equal content have equal digests, whatever their history", () =>
    Effect.gen(function* () {
      const one = yield* newTask
      const other = yield* newTask
      const first = yield* derive(one, null, example("a", "1"), example("b", "1"))
      const second = yield* derive(one, first.dataset.id, example("a", "2"))
      const { dataset } = yield* derive(other, null, example("b", "1"), example("a", "2"))
      assert.strictEqual(second.dataset.content_digest, dataset.content_digest)
      assert.notStrictEqual(second.dataset.content_digest, first.dataset.content_digest)
    })
  )

  it.effect("replaced examples are counted wherever they occur in a large change", () =>
    Effect.gen(function* () {
      const task = yield* newTask
      const { dataset } = yield* derive(task, null, example("a", "1"))
      const others = Array.from({ length: 600 }, (_, index) => example(`other ${index}`, "1"))
      const made = yield* derive(task, dataset.id, example("a", "2"), ...others, example("a", "3"))
      assert.deepInclude(made, { added: 600, replaced: 1, repeated: 1 })
      assert.strictEqual(made.dataset.example_count, 601)
    })
  )

  it.effect("versions are listed by their numbers, even if the clocks of their creators differed", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const datasets = yield* Datasets
      const task = yield* newTask
      const first = yield* derive(task, null, example("a", "1"))
      const { dataset } = yield* derive(task, first.dataset.id, example("b", "1"))
      // An id from a machine whose clock is behind.
      const early = DatasetId.make(`dst_${"0".repeat(32)}`)
      yield* sql`UPDATE datasets SET dataset_id = ${early} WHERE dataset_id = ${dataset.id}`
      const list = (request: PageRequest<DatasetId>) =>
        Effect.provideService(datasets.list(task.task_id, request), Authorized("datasets.read"), {
          org_id: task.org_id,
          actor: task.by,
          scopes: new Set(["datasets.read"] as const),
          groups: [],
          keyMakers: [],
          makers: []
        })
      const newest = yield* list({ limit: 1 })
      assert.deepStrictEqual([newest.items[0]?.version, newest.next_cursor], [2, early])
      const rest = yield* list({ limit: 1, cursor: early })
      assert.deepStrictEqual([rest.items[0]?.version, rest.next_cursor], [1, null])
      assert.deepStrictEqual((yield* list({ cursor: first.dataset.id })).items, [])
      const other = yield* derive(yield* newTask, null, example("a", "1"))
      const foreign = yield* Effect.flip(list({ cursor: other.dataset.id }))
      assert.strictEqual(foreign._tag, "INVALID_REQUEST")
      assert.deepStrictEqual(pointersOf(foreign), ["#/cursor"])
    })
  )

  it.effect("the task's first release gets the first version, and no later one", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const task = yield* newTask
      const { dataset } = yield* derive(task, null, example("a", "1"))
      yield* derive(task, dataset.id, example("b", "1"))
      const releases = yield* sql`SELECT dataset_id FROM releases WHERE release_id = ${task.release_id}`
      assert.deepStrictEqual(releases, [{ dataset_id: dataset.id }])
    })
  )
})
