import { type Array as Arr, Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../api/Authorization.ts"
import { DEFAULT_LIMIT, type PageRequest } from "../api/Pagination.ts"
import { type DatasetBaseChanged, NotFound } from "../api/Problems.ts"
import type { Dataset, Example, JsonObject, NewExample } from "../domain/Dataset.ts"
import type { DatasetId, ExampleId, OrgId, TaskId } from "../domain/Ids.ts"
import { beginVersion, type NewVersion } from "./Datasets/change.ts"
import { inputDigest, readExamples, sameInputs } from "./Datasets/examples.ts"
import { findVersion, listVersions, toDataset } from "./Datasets/versions.ts"
import { type Page, pageOf } from "./Page.ts"
import { hasTask, noTask } from "./Tasks/rows.ts"

export type { NewVersion } from "./Datasets/change.ts"

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
    ) => Effect.Effect<Page<Dataset, DatasetId>, NotFound, Authorized<"datasets.read">>
    readonly get: (id: DatasetId) => Effect.Effect<Dataset, NotFound, Authorized<"datasets.read">>
    /** The examples of one version, newest first. A page may hold fewer than were asked for where they are large. */
    readonly examples: (
      id: DatasetId,
      request: PageRequest<ExampleId>
    ) => Effect.Effect<Page<Example, ExampleId>, NotFound, Authorized<"datasets.read">>
    /**
     * Within the caller's transaction: makes the next version from the base and these examples. An example takes the place of those
     * of the base that have the very same input (as JSON, whatever the order of keys), else it is added. Refused unless `base` is the
     * task's newest version. Holds the task's row to the end of the transaction. The examples fit the task's shapes: callers see to it.
     */
    readonly derive: (
      version: NewVersion,
      examples: Arr.NonEmptyReadonlyArray<NewExample>
    ) => Effect.Effect<DerivedVersion, NotFound | DatasetBaseChanged>
    /** For each input, whether the task's newest version has it: a new example with it would take that one's place. */
    readonly has: (
      org_id: OrgId,
      task_id: TaskId,
      inputs: ReadonlyArray<JsonObject>
    ) => Effect.Effect<ReadonlyArray<boolean>>
  }
>()("countersign/server/Datasets") {
  static readonly layer = Layer.effect(
    Datasets,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient

      const versionOf = Effect.fnUntraced(function* (org_id: OrgId, id: DatasetId) {
        const found = yield* Effect.orDie(findVersion(sql, org_id, id))
        return Option.isSome(found) ? found.value : yield* noDataset
      })

      return Datasets.of({
        list: Effect.fn("Datasets.list")(function* (task_id, request) {
          const { org_id } = yield* Authorized("datasets.read")
          const rows = yield* Effect.orDie(listVersions(sql, org_id, task_id, request))
          if (rows.length === 0 && !(yield* hasTask(sql, org_id, task_id))) return yield* noTask
          return pageOf(request, rows.map(toDataset), (dataset) => dataset.id)
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
        derive: Effect.fn("Datasets.derive")(
          function* (version, examples) {
            const change = yield* beginVersion(sql, version)
            yield* Effect.forEach(examples, change.put, { discard: true })
            return Option.getOrThrow(yield* change.finish)
          },
          Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
        ),
        has: Effect.fn("Datasets.has")(function* (org_id, task_id, inputs) {
          const digests = inputs.map(inputDigest)
          const found = yield* sameInputs(sql, org_id, task_id, AFTER_ALL, [...new Set(digests)])
          const known = new Set(found.map(({ digest }) => digest))
          return digests.map((digest) => known.has(digest))
        }, Effect.orDie)
      })
    })
  )
}

/** A version after every version there is. */
const AFTER_ALL = 2 ** 31 - 1

const noDataset = Effect.fail(new NotFound({ detail: "There is no such dataset in this organization" }))
