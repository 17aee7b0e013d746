import { Context, Effect, Layer, Option, type Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { NewDataset } from "../../api/Datasets.ts"
import { DEFAULT_LIMIT, type PageRequest } from "../../api/Pagination.ts"
import { type DatasetBaseChanged, type InvalidInput, InvalidRequest, NotFound } from "../../api/Problems.ts"
import type { Dataset, Example, NewExample } from "../../domain/tasks/Dataset.ts"
import type { DatasetId, ExampleId, OrgId, TaskId } from "../../domain/Ids.ts"
import { Audit, type Author } from "../identity/Audit.ts"
import { dieOnDatabaseError } from "../store/Database/databaseErrors.ts"
import { atomic, atomicWithoutRetry } from "../store/Database/transaction.ts"
import { beginVersion, type NewVersion } from "./Datasets/beginVersion.ts"
import { checkExamples } from "./Datasets/checkExamples.ts"
import { acquireDatasetLock, oneAfterAnother } from "./Datasets/datasetLock.ts"
import { importLines, type InvalidLine } from "./Datasets/importLines.ts"
import { readExamples } from "./Datasets/exampleRows.ts"
import { findVersion, listVersions, toDataset } from "./Datasets/versionRows.ts"
import { type Page, toPage } from "../store/Pagination.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { findTask, type TaskRow, requireTask } from "./Tasks/rows.ts"

export type { NewVersion } from "./Datasets/beginVersion.ts"

/** A version that was made, and what it changed. */
export interface DerivedVersion {
  readonly dataset: Dataset
  /** Examples whose input the base does not have. */
  readonly added: number
  /** Examples that took the place of those with the very same input. */
  readonly replaced: number
}

/**
 * The versions of tasks' datasets. A version never changes, and storing one costs what it changes: all versions of a task share one
 * table of examples, of which each is part of the versions from one number up to, not including, another.
 */
export class Datasets extends Context.Service<
  Datasets,
  {
    readonly list: (
      task_id: TaskId,
      request: PageRequest<DatasetId>
    ) => Effect.Effect<Page<Dataset, DatasetId>, NotFound | InvalidRequest, Authorized<"datasets.read">>
    readonly get: (id: DatasetId) => Effect.Effect<Dataset, NotFound, Authorized<"datasets.read">>
    /** The examples of one version, newest first. A page may hold fewer than were asked for where they are large. */
    readonly examples: (
      id: DatasetId,
      request: PageRequest<ExampleId>
    ) => Effect.Effect<Page<Example, ExampleId>, NotFound, Authorized<"datasets.read">>
    /** All of a version, newest first, read a page at a time as it is taken. */
    readonly export: (
      id: DatasetId
    ) => Effect.Effect<Stream.Stream<Example>, NotFound, Authorized<"datasets.read">>
    /** The same for the operator, who has the store and no key. */
    readonly exportFor: (org_id: OrgId, id: DatasetId) => Effect.Effect<Stream.Stream<Example>, NotFound>
    /** The first version from examples, or the next one with these beside, or in place of, those of `base_dataset_id`. */
    readonly create: (
      task_id: TaskId,
      input: NewDataset
    ) => Effect.Effect<Dataset, NotFound | InvalidInput | DatasetBaseChanged, Authorized<"datasets.write">>
    /**
     * Makes the task's next version from JSON Lines, an example a line, all of them or none: for the operator, who has the store and no
     * key. The task's dataset stands still meanwhile. `progress` hears of each line.
     */
    readonly importLines: <E>(
      org_id: OrgId,
      task_id: TaskId,
      lines: Stream.Stream<string, E>,
      progress: (read: number) => Effect.Effect<void>
    ) => Effect.Effect<DerivedVersion, NotFound | InvalidLine | E>
    /**
     * Within the caller's transaction: makes the next version from the base and these examples. An example takes the place of those
     * of the base that have the very same input (as JSON, whatever the order of keys), else it is added. Refused unless `base` is the
     * task's newest version. Holds the dataset to the end of the transaction. The examples fit the task's shapes: callers see to it. They
     * are taken as they are needed, so that they need not fit into memory together; there must be one at least.
     */
    readonly derive: (
      version: NewVersion,
      examples: Stream.Stream<NewExample>
    ) => Effect.Effect<DerivedVersion, NotFound | DatasetBaseChanged>
  }
>()("countersign/server/tasks/Datasets") {
  static readonly layer = Layer.effect(
    Datasets,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const clock = yield* StoreClock
      const shapes = yield* CompiledSchemas

      const shapeOf = (digest: string, schema: Schema.Json) => shapes.get(digest, Effect.succeed(schema))

      const recordMade = (author: Author, { added, dataset, replaced }: DerivedVersion) =>
        audit.record(author, "dataset.created", dataset.id, {
          task_id: dataset.task_id,
          version: dataset.version,
          added,
          replaced
        })

      const versionOf = Effect.fnUntraced(function* (org_id: OrgId, id: DatasetId) {
        const found = yield* Effect.orDie(findVersion(sql, org_id, id))
        return Option.isSome(found) ? found.value : yield* noDataset
      })

      /** A cursor is of its own list: after a version of another task there would seem to be nothing. */
      const cursorOf = Effect.fnUntraced(function* (org_id: OrgId, task_id: TaskId, cursor: DatasetId) {
        const found = yield* Effect.orDie(findVersion(sql, org_id, cursor))
        if (Option.isNone(found) || found.value.task_id !== task_id) return yield* foreignCursor
      })

      const exportFor = Effect.fn("Datasets.exportFor")(function* (org_id: OrgId, id: DatasetId) {
        const version = yield* versionOf(org_id, id)
        const first: ExampleId | undefined = undefined
        return Stream.paginate(first, (after: ExampleId | undefined) =>
          readExamples(sql, org_id, version, { after, limit: EXPORTED_AT_ONCE }).pipe(
            Effect.orDie,
            Effect.map(({ examples, next }) => [examples, Option.fromNullOr(next)] as const)
          )
        )
      })

      return Datasets.of({
        list: Effect.fn("Datasets.list")(function* (task_id, request) {
          const { org_id } = yield* Authorized("datasets.read")
          const rows = yield* Effect.orDie(listVersions(sql, org_id, task_id, request))
          if (rows.length === 0) {
            yield* requireTask(sql, org_id, task_id)
            if (request.cursor !== undefined) yield* cursorOf(org_id, task_id, request.cursor)
          }
          return toPage(request, rows.map(toDataset), (dataset) => dataset.id)
        }),
        get: Effect.fn("Datasets.get")(function* (id) {
          const { org_id } = yield* Authorized("datasets.read")
          return toDataset(yield* versionOf(org_id, id))
        }),
        examples: Effect.fn("Datasets.examples")(function* (id, request) {
          const { org_id } = yield* Authorized("datasets.read")
          const version = yield* versionOf(org_id, id)
          const { examples, next } = yield* Effect.orDie(
            readExamples(sql, org_id, version, {
              after: request.cursor,
              limit: request.limit ?? DEFAULT_LIMIT
            })
          )
          return { items: examples, next_cursor: next }
        }),
        export: Effect.fn("Datasets.export")(function* (id) {
          const { org_id } = yield* Authorized("datasets.read")
          return yield* exportFor(org_id, id)
        }),
        exportFor,
        create: Effect.fn("Datasets.create")(function* (task_id, { base_dataset_id, examples }) {
          const principal = yield* Authorized("datasets.write")
          const { actor, org_id } = principal
          const now = yield* clock.now
          const fitting = Effect.fnUntraced(function* (task: TaskRow) {
            const inputs = yield* shapeOf(task.input_schema_digest, task.input_schema)
            const answers = yield* shapeOf(task.answer_schema_digest, task.answer_schema)
            yield* checkExamples({ inputs, answers }, examples)
          })
          // Before the transaction: it takes its time where they are many, and nobody should wait for that.
          const checked = yield* findTask(sql, org_id, task_id)
          yield* fitting(checked)
          const changed = atomically(
            Effect.gen(function* () {
              yield* acquireDatasetLock(sql, org_id, task_id)
              const task = yield* findTask(sql, org_id, task_id)
              // Shapes change until the first run, and may have done so meanwhile.
              if (
                task.input_schema_digest !== checked.input_schema_digest ||
                task.answer_schema_digest !== checked.answer_schema_digest
              ) {
                yield* fitting(task)
              }
              const change = yield* beginVersion(sql, {
                org_id,
                task_id,
                base: base_dataset_id ?? null,
                by: actor,
                now
              })
              for (const example of examples) yield* change.put({ ...example, source_feedback_id: null })
              const made = Option.getOrThrow(yield* change.finish)
              yield* recordMade(principal, made)
              return made.dataset
            })
          )
          return yield* dieOnDatabaseError(oneAfterAnother(org_id, task_id)(changed))
        }),
        importLines: Effect.fn("Datasets.importLines")(function* (org_id, task_id, lines, progress) {
          const now = yield* clock.now
          return yield* importLines(sql, { org_id, task_id, now, schemaOf: shapeOf }, lines, progress).pipe(
            Effect.tap((made) => recordMade({ org_id, actor: null }, made)),
            // The lines come once: run again, it would go on in the middle of them.
            atomicWithoutRetry(sql)
          )
        }),
        derive: Effect.fn("Datasets.derive")(function* (version, examples) {
          yield* acquireDatasetLock(sql, version.org_id, version.task_id)
          const change = yield* beginVersion(sql, version)
          yield* Stream.runForEach(examples, change.put)
          return Option.getOrThrow(yield* change.finish)
        }, dieOnDatabaseError)
      })
    })
  )
}

/** Examples that an export reads at once. */
const EXPORTED_AT_ONCE = 200

const noDataset = Effect.fail(new NotFound({ detail: "There is no such dataset in this organization" }))

const foreignCursor = Effect.fail(
  new InvalidRequest({
    detail: "The cursor is not one of this list: send the next_cursor of its last page, unchanged",
    errors: [{ pointer: "#/cursor", detail: "The cursor is not one of this list" }]
  })
)
