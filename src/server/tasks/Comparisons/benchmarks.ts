import { Array as Arr, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { InvalidComparison, NotFound } from "../../../api/Problems.ts"
import type { DatasetId, OrgId, TaskId } from "../../../domain/Ids.ts"
import { type HoldOut, MAX_BENCHMARK } from "../../../domain/tasks/HoldOut.ts"
import { countOverlap } from "../Datasets/countOverlap.ts"
import { countCompared } from "../Datasets/heldOut.ts"
import { findVersion, type VersionRow } from "../Datasets/versionRows.ts"
import { getRelease } from "../Releases/rows.ts"
import { findTask } from "../Tasks/rows.ts"

/** The benchmark to store. Its dataset belongs to another task with the same schemas. */
export const toBenchmark = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  id: DatasetId
) {
  const benchmark = yield* Effect.orDie(findVersion(sql, org_id, id))
  if (benchmark === undefined) return yield* noBenchmark
  const task = yield* findTask(sql, org_id, task_id)
  const other = yield* findTask(sql, org_id, benchmark.task_id)
  const isAlike =
    task.input_schema_digest === other.input_schema_digest &&
    task.answer_schema_digest === other.answer_schema_digest
  if (benchmark.task_id === task_id || !isAlike) {
    return yield* benchmarkFault(
      benchmark.task_id === task_id
        ? "is a version of the task's own dataset, which prompts use; name a dataset of another task"
        : "is of a task with other schemas"
    )
  }
  if (benchmark.example_count > MAX_BENCHMARK) {
    return yield* benchmarkFault(`has more than ${MAX_BENCHMARK.toLocaleString("en-US")} examples`)
  }
  const hold_out: HoldOut = { kind: "benchmark", dataset_id: id, task_id: benchmark.task_id }
  return hold_out
})

/** Reads a benchmark again, and locks its task's row, so that it is not deleted before the caller's transaction ends. */
export const lockBenchmark = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  { dataset_id, task_id }: Extract<HoldOut, { kind: "benchmark" }>
) {
  yield* Effect.catchTag(findTask(sql, org_id, task_id, "FOR NO KEY UPDATE"), "NOT_FOUND", () => noBenchmark)
  return (yield* Effect.orDie(findVersion(sql, org_id, dataset_id))) ?? (yield* noBenchmark)
})

/** Refuses a benchmark that has inputs of these versions, which the sides see. Returns the key of the versions. */
export const requireApart = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  benchmark: VersionRow,
  versions: Arr.NonEmptyReadonlyArray<VersionRow>
) {
  const overlap = yield* Effect.orDie(countOverlap(sql, org_id, benchmark, versions))
  if (overlap > 0) {
    return yield* benchmarkFault(
      `has ${overlap} inputs that the dataset of the candidate or of the live release has too; remove them from one of both`
    )
  }
  return versionsKey(versions)
})

/** Checks a benchmark before the task is locked, because that reads all of its examples. */
export const checkAhead = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  hold_out: HoldOut,
  candidate_id: DatasetId | undefined
) {
  if (hold_out.kind !== "benchmark") return undefined
  const { dataset_id, live_release_id } = yield* findTask(sql, org_id, task_id)
  const live = yield* Effect.orDie(getRelease(sql, org_id, live_release_id))
  const ids = [candidate_id ?? dataset_id, live.dataset_id].filter((id) => id !== null)
  const benchmark = yield* Effect.orDie(findVersion(sql, org_id, hold_out.dataset_id))
  const found = yield* Effect.orDie(Effect.forEach(ids, (id) => findVersion(sql, org_id, id)))
  const versions = found.filter((version) => version !== undefined)
  if (benchmark === undefined || !Arr.isReadonlyArrayNonEmpty(versions)) return undefined
  return yield* requireApart(sql, org_id, benchmark, versions)
})

/** Counts the examples of a split before the task is locked, because that reads the whole version. */
export const countAhead = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  hold_out: HoldOut
) {
  if (hold_out.kind !== "split") return undefined
  const { dataset_id } = yield* findTask(sql, org_id, task_id)
  if (dataset_id === null) return undefined
  const version = yield* Effect.orDie(findVersion(sql, org_id, dataset_id))
  // The task was deleted meanwhile, or the version was, after a newer one.
  if (version === undefined) return undefined
  return { dataset_id, count: yield* Effect.orDie(countCompared(sql, org_id, version, hold_out)) }
})

/** The key of versions, by which a check that was made of the same ones is recognized. */
export const versionsKey = (versions: ReadonlyArray<VersionRow>): string =>
  versions.map(({ dataset_id }) => dataset_id).join(" ")

const benchmarkFault = (detail: string) =>
  Effect.fail(
    new InvalidComparison({
      detail: `The benchmark ${detail}.`,
      errors: [{ pointer: "#/hold_out/dataset_id", detail }]
    })
  )

const noBenchmark = Effect.fail(
  new NotFound({
    detail: "No such dataset version.",
    errors: [{ pointer: "#/hold_out/dataset_id", detail: "No such dataset version" }]
  })
)
