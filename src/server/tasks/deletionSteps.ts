/**
 * The steps of deletions: each deletes a bounded amount, in the transaction of its caller, and returns where the next one
 * continues. Steps go through a table by its key, from a cursor, so that they do not read again what earlier steps have
 * deleted. A step does not wait for a dataset that another transaction changes, which may take minutes: the deletions of
 * other organizations would wait with it.
 */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { lockOnNode } from "../store/Cluster.ts"
import type { DeletedCounts } from "../../domain/deletion/Deletion.ts"
import { ComparisonId, ExampleId, FeedbackId, type OrgId, RunId, TaskId, TraceId } from "../../domain/Ids.ts"
import type { EndUser } from "../../domain/tasks/EndUser.ts"
import { FeedbackStatus } from "../../domain/tasks/Feedback.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { rowBytes, type StoredUsage } from "../identity/StoredUsage.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { acquireFreeDatasetLock } from "./Datasets/datasetLock.ts"
import {
  deleteExamples,
  deleteResultsAhead,
  digestOfEndUser,
  eraseExamples,
  findOfSubject,
  removePostings
} from "./Datasets/erasedRows.ts"
import {
  deleteFeedback,
  deleteRuns,
  lockFeedback,
  MAX_DELETED_RUNS,
  MAX_ERASED_EXAMPLES,
  type RunDeletionOptions
} from "./deleteRuns.ts"

/** The dependencies of a step. */
export interface StepDeps {
  readonly sql: SqlClient.SqlClient
  readonly usage: StoredUsage["Service"]
  readonly now: Timestamp
}

/** The records that a step deleted, and where the next step of the same phase continues; null: the phase is over. */
export interface StepResult extends Partial<DeletedCounts> {
  readonly cursor: string | null
}

/** Rows that one step reads. */
const SCANNED_ROWS = 5_000

/** Rows that one step deletes from a table of small rows. */
const DELETED_ROWS = 2_000

const runRows = rowsOf(Schema.Struct({ trace_id: TraceId, run_id: RunId }))

/** Deletes the oldest runs of a task. */
export const deleteRunsOfTask = Effect.fnUntraced(function* (
  deps: StepDeps,
  org_id: OrgId,
  task_id: TaskId,
  cursor: string | null
) {
  const { sql } = deps
  const runs = yield* runRows.all(sql`
    SELECT trace_id, run_id
    FROM runs
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND run_id > ${cursor ?? ""}
    ORDER BY run_id
    LIMIT ${MAX_DELETED_RUNS}
  `)
  return yield* deleteFound(deps, org_id, task_id, runs, cursor, runs.at(-1)?.run_id ?? null, false)
})

/**
 * Deletes runs that a scan from the cursor `before` has found. The next step continues at `after`, or again from `before` if the runs have
 * more feedback, or results of its examples, than one transaction deletes.
 */
const deleteFound = Effect.fnUntraced(function* (
  { now, sql, usage }: StepDeps,
  org_id: OrgId,
  task_id: TaskId,
  runs: ReadonlyArray<{ readonly trace_id: TraceId }>,
  before: string | null,
  after: string | null,
  erasesExamples: boolean
) {
  if (runs.length === 0) return { cursor: after } satisfies StepResult
  const options: RunDeletionOptions = { erasesExamples, now }
  const trace_ids = runs.map(({ trace_id }) => trace_id)
  // Examples are deleted by another phase, or the caller has the lock.
  const deleted = yield* deleteRuns(sql, usage, { org_id, task_id, trace_ids }, options, true)
  const { examples = 0, feedback = 0, more = false, runs: count = 0 } = deleted ?? {}
  const result: StepResult = { runs: count, feedback, examples, cursor: more ? (before ?? "") : after }
  return result
})

const scanRows = rowsOf(Schema.Struct({ trace_id: TraceId, run_id: RunId, matches: Schema.Boolean }))

const taskRows = rowsOf(Schema.Struct({ task_id: TaskId }))

/** The data subject of an erasure: a member of metadata, by its key and the digest of the whole. */
export interface Subject {
  readonly key: string
  readonly digest: Uint8Array
}

/** SQL of whether metadata, in a column of this name, has the subject's member. */
export const isOfSubject = (sql: SqlClient.SqlClient, column: string, { digest, key }: Subject) => sql`
  coalesce(
    sha256(convert_to(${key}::text || '=' || (${sql(column)} -> ${key}::text)::text, 'UTF8')) = ${digest}::bytea,
    false
  )
`

/** The cursor of a step that goes through tasks and the rows of each. */
const toCursor = (task_id: TaskId, row: string): string => `${task_id}/${row}`

/** Splits such a cursor. */
const fromCursor = (cursor: string | null): { readonly task: string; readonly row: string } => {
  const [task = "", row = ""] = (cursor ?? "").split("/")
  return { task, row }
}

/** The task at the cursor, or the next one. */
const findTaskFrom = (sql: SqlClient.SqlClient, org_id: OrgId, task: string) =>
  taskRows.first(sql`
    SELECT task_id
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id >= ${task}
    ORDER BY task_id
    LIMIT 1
  `)

/** `<id>~` sorts after every cursor `<id>/…` of a task or comparison in collation C, so the next scan begins with the following one. */
const PAST_THIS = "~"

/**
 * Deletes the runs of a data subject among the next runs of the organization, task by task, with the examples that
 * corrections of them became. Reads every run: the index of metadata has only the first members of each.
 */
export const eraseRunsOfSubject = Effect.fnUntraced(function* (
  deps: StepDeps,
  org_id: OrgId,
  subject: Subject,
  cursor: string | null
) {
  const { sql } = deps
  const { row, task } = fromCursor(cursor)
  const current = yield* findTaskFrom(sql, org_id, task)
  if (current === undefined) return { cursor: null } satisfies StepResult
  const { task_id } = current
  const from = task_id === task ? row : ""
  const scanned = yield* scanRows.all(sql`
    SELECT trace_id, run_id, ${isOfSubject(sql, "metadata", subject)} AS matches
    FROM (
      SELECT trace_id, run_id, metadata
      FROM runs
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND run_id > ${from}
      ORDER BY run_id
      LIMIT ${SCANNED_ROWS}
    ) AS scanned
    ORDER BY run_id
  `)
  const matching = scanned.filter(({ matches }) => matches)
  const found = matching.slice(0, MAX_DELETED_RUNS)
  const last = found.length < matching.length ? found.at(-1) : scanned.at(-1)
  const isTaskOver = scanned.length < SCANNED_ROWS && found.length === matching.length
  const after = isTaskOver ? `${task_id}${PAST_THIS}` : toCursor(task_id, last?.run_id ?? "")
  if (found.length > 0) yield* acquireFreeDatasetLock(sql, org_id, task_id)
  return yield* deleteFound(deps, org_id, task_id, found, toCursor(task_id, from), after, true)
})

const endUserRows = rowsOf(
  Schema.Struct({ feedback_id: FeedbackId, task_id: TaskId, status: FeedbackStatus })
)

/**
 * Deletes the oldest feedback of an end user, and the examples that its corrections became. A step deletes the
 * corrections of one task, whose dataset it locks before any row.
 */
export const eraseFeedbackOfEndUser = Effect.fnUntraced(function* (
  { now, sql, usage }: StepDeps,
  org_id: OrgId,
  end_user: EndUser,
  cursor: string | null
) {
  const scanned = yield* endUserRows.all(sql`
    SELECT feedback_id, task_id, status
    FROM feedback
    WHERE org_id = ${org_id}
      AND end_user = ${end_user}
      AND feedback_id > ${cursor ?? ""}
    ORDER BY feedback_id
    LIMIT ${MAX_ERASED_EXAMPLES}
  `)
  const first = scanned[0]
  if (first === undefined) return { cursor: null } satisfies StepResult
  const isCorrection = ({ status }: (typeof scanned)[number]) => status !== "recorded"
  const { task_id } = scanned.find(isCorrection) ?? first
  const end = scanned.findIndex((row) => isCorrection(row) && row.task_id !== task_id)
  const ids = scanned.slice(0, end < 0 ? undefined : end).map(({ feedback_id }) => feedback_id)
  const hasLock = scanned.some(isCorrection)
  if (hasLock) yield* acquireFreeDatasetLock(sql, org_id, task_id)
  const feedback = yield* lockFeedback(sql, org_id, sql`feedback_id = ANY(${textArray(ids)})`)
  const deleted = yield* deleteFeedback(
    sql,
    usage,
    { org_id, task_id },
    feedback,
    { erasesExamples: true, now },
    hasLock
  )
  if (deleted?.more === true) return { cursor: cursor ?? "" } satisfies StepResult
  const result: StepResult = {
    feedback: feedback.length,
    examples: deleted?.examples ?? 0,
    cursor: ids.at(-1) ?? null
  }
  return result
})

/** Erases the examples that corrections of an end user became, whose feedback retention has deleted. */
export const eraseExamplesOfEndUser = (
  deps: StepDeps,
  org_id: OrgId,
  end_user: EndUser,
  cursor: string | null
) => eraseExamplesOfSubject(deps, org_id, { digest: digestOfEndUser(end_user) }, cursor)

/** Erases the examples of a data subject whose runs or feedback retention has deleted, task by task. */
export const eraseExamplesOfSubject = Effect.fnUntraced(function* (
  { now, sql, usage }: StepDeps,
  org_id: OrgId,
  { digest }: Pick<Subject, "digest">,
  cursor: string | null
) {
  const current = yield* taskRows.first(sql`
    SELECT task_id
    FROM example_subjects
    WHERE org_id = ${org_id}
      AND digest = ${digest}
      AND task_id >= ${cursor ?? ""}
    ORDER BY task_id
    LIMIT 1
  `)
  if (current === undefined) return { cursor: null } satisfies StepResult
  const { task_id } = current
  yield* acquireFreeDatasetLock(sql, org_id, task_id)
  const examples = yield* findOfSubject(sql, org_id, task_id, digest, MAX_ERASED_EXAMPLES)
  const results = yield* deleteResultsAhead(sql, org_id, examples)
  yield* subtract({ now, sql, usage }, org_id, results.bytes)
  if (!results.isOver) return { cursor: task_id } satisfies StepResult
  yield* subtract({ now, sql, usage }, org_id, yield* eraseExamples(sql, org_id, task_id, examples, now))
  const result: StepResult = {
    examples: examples.length,
    cursor: examples.length < MAX_ERASED_EXAMPLES ? `${task_id}${PAST_THIS}` : task_id
  }
  return result
})

/** Subtracts the counted size of the deleted rows. */
const subtract = ({ sql, usage }: StepDeps, org_id: OrgId, bytes: number) =>
  sql.afterCommit(Effect.sync(() => usage.add(org_id, { bytes: -bytes })))

const comparisonRows = rowsOf(Schema.Struct({ comparison_id: ComparisonId, matches: Schema.Boolean }))

/** The comparisons whose results a deletion deletes: those of a task, or those of all tasks over a dataset version. */
type DeletedComparisons = { readonly task_id: TaskId } | { readonly dataset_id: string }

/**
 * Deletes results of the next comparison among these, and a comparison of a deleted task once it has no results. Locks
 * the comparison, so that a replica that still works on it records nothing more. No index has the dataset versions of
 * comparisons, so a step looks for one among the next comparisons of the organization.
 */
export const deleteResults = Effect.fnUntraced(function* (
  deps: StepDeps,
  org_id: OrgId,
  deleted: DeletedComparisons,
  cursor: string | null
) {
  const { sql } = deps
  const isOfTask = "task_id" in deleted
  const next = yield* comparisonRows.first(sql`
    SELECT comparison_id, matches
    FROM (
      SELECT
        comparison_id,
        row_number() OVER (ORDER BY comparison_id) AS number,
        ${isOfTask ? sql.literal("true") : sql`dataset_id = ${deleted.dataset_id}`} AS matches
      FROM comparisons
      WHERE org_id = ${org_id}
        ${isOfTask ? sql`AND task_id = ${deleted.task_id}` : sql.literal("")}
        AND comparison_id >= ${cursor ?? ""}
      ORDER BY comparison_id
      LIMIT ${SCANNED_ROWS}
    ) AS scanned
    WHERE matches
      OR number = ${SCANNED_ROWS}
    ORDER BY comparison_id
    LIMIT 1
  `)
  if (next === undefined) return { cursor: null } satisfies StepResult
  const { comparison_id, matches } = next
  const after: StepResult = { cursor: `${comparison_id}${PAST_THIS}` }
  if (!matches) return after
  yield* lockOnNode(
    sql,
    org_id,
    sql`
      SELECT
      FROM comparisons
      WHERE org_id = ${org_id}
        AND comparison_id = ${comparison_id}
      FOR UPDATE
    `
  )
  const [results] = yield* sql<{ readonly rows: number; readonly bytes: number }>`
    WITH batch AS (
      SELECT example_id
      FROM comparison_results
      WHERE org_id = ${org_id}
        AND comparison_id = ${comparison_id}
      ORDER BY example_id
      LIMIT ${DELETED_ROWS}
    ), deleted AS (
      DELETE FROM comparison_results AS result
      USING batch
      WHERE result.org_id = ${org_id}
        AND result.comparison_id = ${comparison_id}
        AND result.example_id = batch.example_id
      RETURNING octet_length(candidate::text) + octet_length(live::text) AS bytes
    )
    SELECT count(*)::int AS rows, coalesce(sum(bytes), 0)::float8 AS bytes
    FROM deleted
  `
  const { bytes = 0, rows = 0 } = results ?? {}
  yield* subtract(deps, org_id, bytes + rows * rowBytes.result)
  if (rows === DELETED_ROWS) return { cursor: comparison_id } satisfies StepResult
  if (isOfTask) {
    yield* sql`
      DELETE FROM comparisons
      WHERE org_id = ${org_id}
        AND comparison_id = ${comparison_id}
    `
  }
  return after
})

const idRows = rowsOf(Schema.Struct({ example_id: ExampleId }))

/** Deletes the next examples of a task that is deleted. The search index of the dataset is deleted as a whole. */
export const deleteExamplesOfTask = Effect.fnUntraced(function* (
  deps: StepDeps,
  org_id: OrgId,
  task_id: TaskId,
  cursor: string | null
) {
  const { sql } = deps
  const examples = yield* idRows.all(sql`
    SELECT example_id
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND example_id > ${cursor ?? ""}
    ORDER BY example_id
    LIMIT ${DELETED_ROWS}
  `)
  const results = yield* deleteResultsAhead(sql, org_id, examples)
  yield* subtract(deps, org_id, results.bytes)
  if (!results.isOver) return { cursor: cursor ?? "" } satisfies StepResult
  const ids = examples.map(({ example_id }) => example_id)
  yield* subtract(deps, org_id, yield* deleteExamples(sql, org_id, task_id, ids))
  return { examples: ids.length, cursor: ids.at(-1) ?? null } satisfies StepResult
})

const rangeRows = rowsOf(Schema.Struct({ previous: Schema.Int, next: Schema.NullOr(Schema.Int) }))

const indexedRows = rowsOf(Schema.Struct({ ordinal: Schema.Int, tokens: Schema.Uint8Array }))

const versionScanRows = rowsOf(Schema.Struct({ example_id: ExampleId, matches: Schema.Boolean }))

/**
 * Deletes the next examples that no version of the task has any more, because the only versions with them are
 * deleted: version `version`, and others that were deleted before it.
 */
export const deleteExamplesOfVersion = Effect.fnUntraced(function* (
  deps: StepDeps,
  org_id: OrgId,
  task_id: TaskId,
  version: number,
  cursor: string | null
) {
  const { sql } = deps
  yield* acquireFreeDatasetLock(sql, org_id, task_id)
  const range = yield* rangeRows.first(sql`
    SELECT
      coalesce((SELECT max(version) FROM datasets WHERE org_id = ${org_id} AND task_id = ${task_id} AND version < ${version}), 0) AS previous,
      (SELECT min(version) FROM datasets WHERE org_id = ${org_id} AND task_id = ${task_id} AND version > ${version}) AS next
  `)
  // Without a later version, the task is being deleted.
  if (range === undefined || range.next === null) return { cursor: null } satisfies StepResult
  const { next, previous } = range
  const scanned = yield* versionScanRows.all(sql`
    SELECT example_id, coalesce(first_version > ${previous} AND until_version <= ${next}, false) AS matches
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND example_id > ${cursor ?? ""}
    ORDER BY example_id
    LIMIT ${SCANNED_ROWS}
  `)
  const matching = scanned.filter(({ matches }) => matches)
  const chosen = matching.slice(0, MAX_ERASED_EXAMPLES)
  const results = yield* deleteResultsAhead(sql, org_id, chosen)
  yield* subtract(deps, org_id, results.bytes)
  if (!results.isOver) return { cursor: cursor ?? "" } satisfies StepResult
  const found = chosen.map(({ example_id }) => example_id)
  const examples = yield* indexedRows.all(sql`
    SELECT ordinal, tokens
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND example_id = ANY(${textArray(found)})
  `)
  const freed = yield* deleteExamples(sql, org_id, task_id, found)
  yield* subtract(deps, org_id, freed + (yield* removePostings(sql, org_id, task_id, examples)))
  const isOver = scanned.length < SCANNED_ROWS && found.length === matching.length
  const last = found.length < matching.length ? found.at(-1) : scanned.at(-1)?.example_id
  if (isOver) {
    yield* sql`
      DELETE FROM erased_examples
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND first_version > ${previous}
        AND until_version <= ${next}
    `
  }
  const result: StepResult = { examples: examples.length, cursor: isOver ? null : (last ?? null) }
  return result
})

const wordRows = rowsOf(Schema.Struct({ word: Schema.Int, bytes: Schema.Int }))

/** Deletes the search index of a task that is deleted, some words at a time. */
export const deletePostings = Effect.fnUntraced(function* (
  deps: StepDeps,
  org_id: OrgId,
  task_id: TaskId,
  cursor: string | null
) {
  const { sql } = deps
  const after = cursor === null ? null : Number.parseInt(cursor, 10)
  const rows = yield* wordRows.all(sql`
    WITH batch AS MATERIALIZED (
      SELECT word, first_ordinal
      FROM dataset_postings
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        ${after === null ? sql.literal("") : sql`AND word >= ${after}::int`}
      ORDER BY word, first_ordinal
      LIMIT ${DELETED_ROWS}
    )
    DELETE FROM dataset_postings AS chunk
    USING batch
    WHERE chunk.org_id = ${org_id}
      AND chunk.task_id = ${task_id}
      AND chunk.word = batch.word
      AND chunk.first_ordinal = batch.first_ordinal
    RETURNING chunk.word, octet_length(chunk.postings) AS bytes
  `)
  const freed = rows.reduce((sum, { bytes }) => sum + bytes + rowBytes.posting_list, 0)
  yield* subtract(deps, org_id, freed)
  const last = rows.reduce((highest, { word }) => Math.max(highest, word), Number.NEGATIVE_INFINITY)
  return { cursor: rows.length < DELETED_ROWS ? null : String(last) } satisfies StepResult
})

/** The other tables with rows of a task, in the order of their deletion. */
const OTHER_TABLES = [
  "erased_examples",
  "datasets",
  "feedback_counts",
  "feedback_label_counts",
  "feedback_labels",
  "releases",
  "run_counts",
  "provider_keys",
  "run_reviews",
  "reviewer_answers",
  "reviewer_counts"
]

/** The counted size of their rows, unless it is 0. */
const OTHER_BYTES: Readonly<Record<string, string>> = {
  datasets: String(rowBytes.version),
  reviewer_answers: `${rowBytes.reviewer_answer} + octet_length(reason)`
}

/** Deletes rows of the other tables of a task that is deleted, up to a number of rows of each. */
export const deleteRest = Effect.fnUntraced(function* (deps: StepDeps, org_id: OrgId, task_id: TaskId) {
  const { sql } = deps
  let isOver = true
  for (const table of OTHER_TABLES) {
    const rows = yield* sql<{ readonly bytes: number }>`
      DELETE FROM ${sql(table)}
      WHERE org_id = ${org_id}
        AND ctid = ANY(ARRAY(
        SELECT ctid
        FROM ${sql(table)}
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
        LIMIT ${DELETED_ROWS}
      ))
      RETURNING ${sql.literal(OTHER_BYTES[table] ?? "0")} AS bytes
    `
    if (rows.length === DELETED_ROWS) isOver = false
    const freed = rows.reduce((sum, { bytes }) => sum + bytes, 0)
    if (freed > 0) yield* subtract(deps, org_id, freed)
  }
  return { cursor: isOver ? null : "" } satisfies StepResult
})
