import { Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { DEFAULT_LIMIT, type PageRequest } from "../../../api/Pagination.ts"
import type { RunFilter } from "../../../api/Runs.ts"
import { type OrgId, RunId, type TaskId } from "../../../domain/Ids.ts"
import type { RunRecord } from "../../../domain/tasks/Run.ts"
import { Score } from "../../../domain/tasks/Feedback.ts"
import { containsText } from "../../store/foldCase.ts"
import { int4Array } from "../../store/pgArrays.ts"
import { MAX_PAGE_BYTES, type Page } from "../../store/Pagination.ts"
import { rowsOf } from "../../store/rows.ts"
import { memberDigest } from "../runMetadata.ts"
import { readRuns } from "./rows.ts"

/** Runs that one request examines if filters remain that its index does not answer. */
const MAX_EXAMINED = 2_000

/** Bytes of content that one request examines, for the same reason. The first run is examined whatever its size. */
const MAX_EXAMINED_BYTES = 16 * 1024 * 1024

/** Runs that took at least this number of milliseconds have an index of their own: `runs_slow`. */
const SLOW_MILLIS = 10_000

/** Lists a page of a task's runs, or of all runs, newest first: at most `limit`, and about 256 KiB. */
export const listRuns = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId | undefined,
  request: PageRequest<RunId> & RunFilter
) {
  const rows = yield* listedRows.all(selectPage(sql, org_id, task_id, request, MAX_PAGE_BYTES))
  const page: Page<RunRecord, RunId> = {
    items: yield* readRuns(sql, org_id, task_id, idsOf(rows)),
    next_cursor: nextCursor(rows)
  }
  return page
})

/** A row of `selectPage`: a run of the page, or a mark of what follows it. */
export const ListedRun = Schema.Struct({
  run_id: Schema.NullOr(RunId),
  part: Schema.Literals(["page", "after", "end"])
})
export type ListedRun = typeof ListedRun.Type

const listedRows = rowsOf(ListedRun)

const idsOf = (rows: ReadonlyArray<ListedRun>): ReadonlyArray<RunId> =>
  rows.flatMap(({ part, run_id }) => (part === "page" && run_id !== null ? [run_id] : []))

/** The cursor of the page after the rows of `selectPage`: further matches follow the page, or further runs follow the examined ones. */
export const nextCursor = (rows: ReadonlyArray<ListedRun>): RunId | null =>
  rows.some(({ part }) => part === "after")
    ? idsOf(rows).reduce<RunId | null>((least, id) => (least === null || id < least ? id : least), null)
    : (rows.find(({ part }) => part === "end")?.run_id ?? null)

/**
 * The statement that finds a page of the runs of a task, or of the organization if `task_id` is undefined: the newest, at most `limit`,
 * and about `maxBytes` of content. It returns rows of `ListedRun`, whose order says nothing.
 *
 * One of the filters chooses the index that is scanned; the others are checked on the runs that it yields. So a rare combination of
 * filters, or a rare text, could read all runs: a request examines a limited number of them, and the next page continues where it ended.
 */
export const selectPage = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId | undefined,
  request: PageRequest<RunId> & RunFilter,
  maxBytes: number
): Statement.Statement<unknown> => {
  const limit = request.limit ?? DEFAULT_LIMIT
  const scan = chooseScan(sql, org_id, task_id, request)
  const conditions = remainingConditions(sql, request, scan.answers)
  const examined = conditions.length === 0 ? limit : MAX_EXAMINED
  // Without a task, the index `runs_newest` finds a run by its id.
  const ofTask = task_id === undefined ? [] : [sql`runs.task_id = ${task_id}`]
  return sql`
    WITH scanned AS MATERIALIZED (
      ${scan.select(examined + 1)}
    ),
    candidates AS (
      SELECT
        run_id,
        sum(bytes) OVER (ORDER BY run_id DESC) AS bytes,
        row_number() OVER (ORDER BY run_id DESC) AS number
      FROM (SELECT DISTINCT run_id FROM scanned) AS found
        CROSS JOIN LATERAL (
          SELECT bytes
          FROM runs
          WHERE ${sql.and([sql`runs.org_id = ${org_id}`, ...ofTask, sql`runs.run_id = found.run_id`])}
          LIMIT 1
        ) AS run
    ),
    examined AS MATERIALIZED (
      SELECT run_id
      FROM candidates
      ${conditions.length === 0 ? sql.literal("") : sql`WHERE number = 1 OR bytes <= ${MAX_EXAMINED_BYTES}::int`}
    ),
    matched AS MATERIALIZED (
      SELECT examined.run_id, run.bytes
      FROM examined
        CROSS JOIN LATERAL (
          SELECT bytes
          FROM runs
          WHERE ${sql.and([
            sql`runs.org_id = ${org_id}`,
            ...ofTask,
            sql`runs.run_id = examined.run_id`,
            ...conditions
          ])}
          LIMIT 1
        ) AS run
      ORDER BY examined.run_id DESC
      LIMIT ${limit + 1}
    ),
    sized AS (
      SELECT
        run_id,
        sum(bytes) OVER (ORDER BY run_id DESC) AS bytes,
        row_number() OVER (ORDER BY run_id DESC) AS number
      FROM matched
    )
    SELECT
      run_id,
      CASE WHEN number = 1 OR (number <= ${limit}::int AND bytes <= ${maxBytes}::int) THEN 'page' ELSE 'after' END AS part
    FROM sized
    UNION ALL
    SELECT min(run_id), 'end'
    FROM examined
    HAVING (SELECT count(*) FROM scanned) > ${examined}
      OR (SELECT count(*) FROM candidates) > count(*)
  `
}

/** A scan of one index. */
interface IndexScan {
  /** The filters that it answers, so that they need not be checked. */
  readonly answers: ReadonlyArray<keyof RunFilter>
  /** Selects the ids of the newest runs of the scan. An id can occur more than once. */
  readonly select: (limit: number) => Statement.Fragment
}

/** The index that is scanned for a filter: of several filters, the one that few runs match as a rule. */
const chooseScan = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId | undefined,
  request: PageRequest<RunId> & RunFilter
): IndexScan => {
  const range = [
    sql`org_id = ${org_id}`,
    ...(request.cursor === undefined ? [] : [sql`run_id < ${request.cursor}`]),
    ...(request.created_after === undefined
      ? []
      : [sql`run_id >= ${RunId.lowerBound(request.created_after)}`]),
    ...(request.created_before === undefined
      ? []
      : [sql`run_id < ${RunId.lowerBound(request.created_before)}`])
  ]
  const ofTask = task_id === undefined ? [] : [sql`task_id = ${task_id}`]
  const scan = (
    table: string,
    answers: IndexScan["answers"],
    ...conditions: ReadonlyArray<Statement.Fragment>
  ): IndexScan => ({
    answers,
    select: (limit) => sql`
      SELECT run_id
      FROM ${sql(table)}
      WHERE ${sql.and([...range, ...conditions])}
      ORDER BY run_id DESC
      LIMIT ${limit}
    `
  })
  const [member] = Object.entries(request.metadata ?? {})
  // The index begins with the task.
  if (member !== undefined && task_id !== undefined) {
    const [name, value] = member
    // Not in `answers`: the index has digests, and there may be other members.
    return scan(
      "run_metadata",
      [],
      ...ofTask,
      sql`digest = ${memberDigest(sql, sql`${`${name}=${JSON.stringify(value)}`}`)}`
    )
  }
  if (request.awaits_review === true) return scan("run_reviews", ["awaits_review"], ...ofTask)
  if (request.score !== undefined || request.has_feedback === true) {
    const scores = int4Array(request.score === undefined ? Score.literals : [request.score])
    return {
      answers: request.has_feedback === false ? ["score"] : ["score", "has_feedback"],
      // One range of the index per score.
      select: (limit) => sql`
        SELECT found.run_id
        FROM unnest(${scores}) AS scores (score)
          CROSS JOIN LATERAL (
            SELECT run_id
            FROM feedback
            WHERE ${sql.and([...range, ...ofTask])}
              AND feedback.score = scores.score
              AND feedback.is_current
            ORDER BY run_id DESC
            LIMIT ${limit}
          ) AS found
        ORDER BY found.run_id DESC
        LIMIT ${limit}
      `
    }
  }
  if (request.status === "failed") return scan("runs", ["status"], ...ofTask, sql`status = 'failed'`)
  if (request.release_id !== undefined) {
    // Without the task, which another index begins with: a release of another task yields no run of this one.
    return scan("runs", ["release_id"], sql`release_id = ${request.release_id}`, sql`source = 'provider'`)
  }
  if (task_id === undefined && (request.min_duration_ms ?? 0) >= SLOW_MILLIS) {
    // Not in `answers`: the filter may ask for more. A parameter would not match the index.
    return scan("runs", [], sql`duration_ms >= ${sql.literal(String(SLOW_MILLIS))}`)
  }
  return scan("runs", [], ...ofTask)
}

/** The conditions, on a row of `runs`, of the filters that the scan does not answer. */
const remainingConditions = (
  sql: SqlClient.SqlClient,
  filter: RunFilter,
  answers: IndexScan["answers"]
): ReadonlyArray<Statement.Fragment> => {
  const feedback = sql`
    SELECT 1
    FROM feedback
    WHERE feedback.org_id = runs.org_id
      AND feedback.trace_id = runs.trace_id
      AND feedback.is_current
  `
  const review = sql`
    SELECT 1
    FROM run_reviews
    WHERE run_reviews.org_id = runs.org_id
      AND run_reviews.task_id = runs.task_id
      AND run_reviews.run_id = runs.run_id
  `
  const conditions: { readonly [Name in keyof RunFilter]: ReadonlyArray<Statement.Fragment> } = {
    release_id:
      filter.release_id === undefined
        ? []
        : [sql`release_id = ${filter.release_id}`, sql`source = 'provider'`],
    source: filter.source === undefined ? [] : [sql`source = ${filter.source}`],
    status: filter.status === undefined ? [] : [sql`status = ${filter.status}`],
    score:
      filter.score === undefined ? [] : [sql`EXISTS (${feedback} AND feedback.score = ${filter.score}::int)`],
    has_feedback:
      filter.has_feedback === undefined
        ? []
        : [filter.has_feedback ? sql`EXISTS (${feedback})` : sql`NOT EXISTS (${feedback})`],
    min_duration_ms:
      filter.min_duration_ms === undefined ? [] : [sql`duration_ms >= ${filter.min_duration_ms}::int`],
    awaits_review:
      filter.awaits_review === undefined
        ? []
        : [filter.awaits_review ? sql`EXISTS (${review})` : sql`NOT EXISTS (${review})`],
    metadata: Object.entries(filter.metadata ?? {}).map(
      ([name, value]) => sql`(metadata -> ${name}::text)::text = ${JSON.stringify(value)}`
    ),
    text: filter.text === undefined ? [] : [contains(sql, filter.text)]
  }
  return Object.entries(conditions).flatMap(([name, fragments]) =>
    answers.some((answered) => answered === name) ? [] : fragments
  )
}

/** Whether the content of a run contains a text, in any case. Input and answer are searched as JSON, so the text is escaped as in JSON. */
const contains = (sql: SqlClient.SqlClient, text: string): Statement.Fragment => {
  const escaped = JSON.stringify(text).slice(1, -1)
  return sql`(
    ${containsText(sql, "input::text", escaped)}
    OR ${containsText(sql, "answer::text", escaped)}
    OR ${containsText(sql, "failure", text)}
  )`
}
