/** The records that a search finds, as its results show them. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { SearchKind, SearchResult } from "../../../api/console/Search.ts"
import type { Scope } from "../../../domain/identity/Scope.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

/** The scope that reading each kind needs. */
export const kindScopes: Readonly<Record<SearchKind, Scope>> = {
  approval: "approvals.read",
  session: "sessions.read",
  task: "tasks.read",
  run: "runs.read",
  feedback: "feedback.read",
  dataset: "datasets.read",
  comparison: "tasks.read",
  release: "tasks.read",
  grant: "approvals.read",
  endpoint: "org_config.read",
  delivery: "org_config.read",
  key: "keys.write"
}

/** Characters of a record's details. */
const MAX_DETAIL = 300

/** The SQL of a result of each kind, over the rows of its table. `subject`: the id in the path of its page. */
const sources: Readonly<
  Record<
    Exclude<SearchKind, "run" | "delivery">,
    {
      readonly table: string
      readonly id: string
      readonly title: string
      readonly detail: string
      readonly status: string
      readonly subject: string
      readonly page: (subject: string) => string
    }
  >
> = {
  approval: {
    table: "approvals",
    id: "approval_id",
    title: "tool",
    detail: `coalesce(left(arguments::text, ${MAX_DETAIL}), '')`,
    status: "status",
    subject: "approval_id",
    page: (id) => `/approvals/${id}`
  },
  session: {
    table: "agent_sessions",
    id: "session_id",
    title: "created_by_name",
    detail: `coalesce(left(metadata::text, ${MAX_DETAIL}), '')`,
    status: "CASE WHEN closed_at IS NULL THEN 'open' ELSE 'closed' END",
    subject: "session_id",
    page: (id) => `/sessions/${id}`
  },
  task: {
    table: "tasks",
    id: "task_id",
    title: "name",
    detail: `left(instructions, ${MAX_DETAIL})`,
    status: "''",
    subject: "task_id",
    page: (id) => `/tasks/${id}`
  },
  feedback: {
    table: "feedback",
    id: "feedback_id",
    title: "CASE score WHEN 1 THEN 'Correct' WHEN -1 THEN 'Incorrect' ELSE 'Neutral' END",
    detail: `coalesce(left(comment, ${MAX_DETAIL}), '')`,
    status: "status",
    subject: "feedback_id",
    page: (id) => `/feedback/${id}`
  },
  dataset: {
    table: "datasets",
    id: "dataset_id",
    title: "'Version ' || version",
    detail: "''",
    status: "''",
    subject: "dataset_id",
    page: (id) => `/datasets/${id}`
  },
  comparison: {
    table: "comparisons",
    id: "comparison_id",
    title:
      "concat_ws(' of ', 'Comparison', (SELECT name FROM tasks WHERE tasks.org_id = comparisons.org_id AND tasks.task_id = comparisons.task_id))",
    detail: `left(candidate_instructions, ${MAX_DETAIL})`,
    status: "status",
    subject: "comparison_id",
    page: (id) => `/comparisons/${id}`
  },
  release: {
    table: "releases",
    id: "release_id",
    title:
      "concat_ws(' of ', 'Release ' || number, (SELECT name FROM tasks WHERE tasks.org_id = releases.org_id AND tasks.task_id = releases.task_id))",
    detail: `left(instructions, ${MAX_DETAIL})`,
    status: "''",
    subject: "task_id",
    page: (id) => `/tasks/${id}/releases`
  },
  grant: {
    table: "grants",
    id: "grant_id",
    title: "tool",
    detail: `left(reason, ${MAX_DETAIL})`,
    status: "CASE WHEN ended_at IS NULL THEN 'open' ELSE 'ended' END",
    subject: "grant_id",
    page: (id) => `/grants/${id}`
  },
  endpoint: {
    table: "notification_endpoints",
    id: "endpoint_id",
    title: "coalesce(description, url_hint)",
    detail: "CASE WHEN description IS NULL THEN '' ELSE url_hint END",
    status: "CASE WHEN active THEN 'enabled' ELSE 'disabled' END",
    subject: "endpoint_id",
    page: (id) => `/endpoints/${id}`
  },
  key: {
    table: "api_keys",
    id: "key_id",
    title: "name",
    detail: "coalesce(email, '')",
    status: "CASE WHEN revoked_at IS NULL THEN '' ELSE 'revoked' END",
    // People are listed on a page of their own.
    subject: `CASE
      WHEN EXISTS (SELECT 1 FROM people WHERE people.org_id = api_keys.org_id AND people.key_id = api_keys.key_id)
      THEN 'people?person='
      ELSE 'keys?key='
    END || key_id`,
    page: (subject) => `/${subject}`
  }
}

export type TableKind = keyof typeof sources

/** The kinds by the prefixes of their ids. */
export const tableKinds: Readonly<Record<string, TableKind>> = {
  apr: "approval",
  ses: "session",
  tsk: "task",
  fbk: "feedback",
  dst: "dataset",
  cmp: "comparison",
  rel: "release",
  grt: "grant",
  nep: "endpoint",
  key: "key"
}

/** The kind of a record with this id; undefined for another one. */
export const kindOfId = (id: string): TableKind | undefined => tableKinds[id.split("_", 1)[0] ?? ""]

/** A row of any kind. */
const resultRows = rowsOf(
  Schema.Struct({
    id: Schema.String,
    subject: Schema.String,
    title: Schema.String,
    detail: Schema.String,
    status: Schema.String,
    created_at: Schema.NullOr(TimestampFromDate)
  })
)

const createdAt = (kind: TableKind): string => (kind === "approval" ? "requested_at" : "created_at")

const select = (sql: SqlClient.SqlClient, kind: TableKind) => {
  const { detail, id, status, subject, table, title } = sources[kind]
  return sql.literal(
    `SELECT ${id} AS id, ${subject} AS subject, ${title} AS title, ${detail} AS detail, ${status} AS status,
      ${createdAt(kind)} AS created_at
    FROM ${table}`
  )
}

const toResults =
  (kind: TableKind) =>
  (rows: ReadonlyArray<{ readonly subject: string } & Omit<SearchResult, "kind" | "page">>) =>
    rows.map(({ subject, ...row }): SearchResult => ({ kind, page: sources[kind].page(subject), ...row }))

/** Reads records by their ids, newest first. Deleted ones are absent. */
export const readRecords = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  kind: TableKind,
  ids: ReadonlyArray<string>
) =>
  Effect.map(
    resultRows.all(sql`
      ${select(sql, kind)}
      WHERE org_id = ${org_id}
        AND ${sql(sources[kind].id)} = ANY(${textArray(ids)})
      ORDER BY 1 DESC
    `),
    toResults(kind)
  )

/** Reads the first records whose id starts with a text of lower-case letters, digits and `_`. */
export const readRecordsByPrefix = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  kind: TableKind,
  prefix: string,
  limit: number
) => {
  const id = sql(sources[kind].id)
  return Effect.map(
    resultRows.all(sql`
      ${select(sql, kind)}
      WHERE org_id = ${org_id}
        AND ${id} >= ${prefix}
        AND ${id} < ${`${prefix}g`}
      ORDER BY 1 DESC
      LIMIT ${limit}
    `),
    toResults(kind)
  )
}
