import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { lockOnNode } from "../store/Cluster.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { type Deletion, DeletionKind, DeletionStatus } from "../../domain/deletion/Deletion.ts"
import { DeletionId, KeyId, OrgId, TaskId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { EndUser } from "../../domain/tasks/EndUser.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../domain/Time.ts"
import { claimFirst, MAX_CANDIDATES } from "../store/claimFirst.ts"
import { beforeCursor, rowLimit } from "../store/Pagination.ts"
import { countOf, rowsOf } from "../store/rows.ts"

/** A row of `deletions`. */
const DeletionRow = Schema.Struct({
  org_id: OrgId,
  deletion_id: DeletionId,
  kind: DeletionKind,
  target_id: Schema.NullOr(Schema.String),
  task_id: Schema.NullOr(TaskId),
  version: Schema.NullOr(Schema.Int),
  metadata_key: Schema.NullOr(Schema.String),
  metadata_digest: Schema.NullOr(Schema.Uint8Array),
  end_user: Schema.NullOr(EndUser),
  status: DeletionStatus,
  phase: Schema.String,
  cursor: Schema.NullOr(Schema.String),
  runs: Schema.Int,
  feedback: Schema.Int,
  examples: Schema.Int,
  sessions: Schema.Int,
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  finished_at: Schema.NullOr(TimestampFromDate)
})
export type DeletionRow = typeof DeletionRow.Type

const counts = new Set(["runs", "feedback", "examples", "sessions"])

const columns = Object.keys(DeletionRow.fields)
  .map((name) => (counts.has(name) ? `${name}::float8 AS ${name}` : name))
  .join(", ")

const deletionRows = rowsOf(DeletionRow)

/** Converts a row to the API's deletion. */
export const toDeletion = (row: DeletionRow): Deletion => ({
  id: row.deletion_id,
  kind: row.kind,
  target_id: row.target_id,
  metadata_key: row.metadata_key,
  metadata_digest: row.metadata_digest === null ? null : Buffer.from(row.metadata_digest).toString("hex"),
  end_user: row.end_user,
  status: row.status,
  deleted: { runs: row.runs, feedback: row.feedback, examples: row.examples, sessions: row.sessions },
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name },
  finished_at: row.finished_at
})

/** The target of a new deletion. */
export type NewDeletion =
  | { readonly kind: "task"; readonly target_id: TaskId }
  | {
      readonly kind: "dataset"
      readonly target_id: string
      readonly task_id: TaskId
      readonly version: number
    }
  | { readonly kind: "erasure"; readonly metadata_key: string; readonly metadata_digest: Uint8Array }
  | { readonly kind: "erasure"; readonly end_user: EndUser }

/** Inserts a deletion, which a worker begins at once. */
export const insertDeletion = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { actor, org_id }: Principal,
  deletion: NewDeletion,
  now: Timestamp
) {
  const row: DeletionRow = {
    org_id,
    deletion_id: yield* DeletionId.generate,
    target_id: null,
    task_id: null,
    version: null,
    metadata_key: null,
    metadata_digest: null,
    end_user: null,
    ...deletion,
    status: "running",
    phase: FIRST_PHASE,
    cursor: null,
    runs: 0,
    feedback: 0,
    examples: 0,
    sessions: 0,
    created_at: now,
    created_by_id: actor.id,
    created_by_name: actor.name,
    finished_at: null
  }
  yield* sql`
    INSERT INTO deletions (
      org_id, deletion_id, kind, target_id, task_id, version, metadata_key, metadata_digest, end_user, status, phase,
      due_at, created_at, created_by_id, created_by_name
    )
    VALUES (
      ${org_id}, ${row.deletion_id}, ${row.kind}, ${row.target_id}, ${row.task_id}, ${row.version}, ${row.metadata_key},
      ${row.metadata_digest}, ${row.end_user}, ${row.status}, ${row.phase}, ${toDate(now)}, ${toDate(now)},
      ${row.created_by_id}, ${row.created_by_name}
    )
  `
  return toDeletion(row)
})

/** The phase in which each deletion begins. */
export const FIRST_PHASE = "begin"

/** Finds the organization's deletion. */
export const findDeletion = (sql: SqlClient.SqlClient, org_id: OrgId, id: DeletionId) =>
  deletionRows.first(sql`
    SELECT ${sql.literal(columns)}
    FROM deletions
    WHERE org_id = ${org_id}
      AND deletion_id = ${id}
  `)

/** Lists the organization's deletions, newest first: one row more than the page size. */
export const listDeletions = (sql: SqlClient.SqlClient, org_id: OrgId, request: PageRequest<DeletionId>) =>
  deletionRows.all(sql`
    SELECT ${sql.literal(columns)}
    FROM deletions
    WHERE org_id = ${org_id}
      ${beforeCursor(sql, "deletion_id", request.cursor)}
    ORDER BY deletion_id DESC
    LIMIT ${rowLimit(request)}
  `)

/** Counts the organization's running deletions, up to `limit`. */
export const countRunningDeletions = (sql: SqlClient.SqlClient, org_id: OrgId, limit: number) =>
  countOf(sql`
    SELECT count(*)::int AS count
    FROM (
      SELECT 1
      FROM deletions
      WHERE org_id = ${org_id}
        AND status = 'running'
      LIMIT ${limit}
    ) AS running
  `)

/**
 * Locks the deletion that has been due for the longest time, except deletions that another replica works on. `undefined` if
 * none is due. The caller's transaction deletes something and writes the progress, so a killed replica loses neither.
 */
export const lockDueDeletion = (sql: SqlClient.SqlClient, now: Timestamp) =>
  claimFirst(
    sql<Pick<DeletionRow, "org_id" | "deletion_id">>`
      SELECT org_id, deletion_id
      FROM deletions
      WHERE due_at <= ${toDate(now)}
      ORDER BY due_at, deletion_id
      LIMIT ${MAX_CANDIDATES}
    `,
    ({ deletion_id, org_id }) =>
      lockOnNode(
        sql,
        org_id,
        deletionRows.first(sql`
        SELECT ${sql.literal(columns)}
        FROM deletions
        WHERE org_id = ${org_id}
          AND deletion_id = ${deletion_id}
          AND due_at <= ${toDate(now)}
        FOR NO KEY UPDATE SKIP LOCKED
      `)
      )
  )

/** Writes the progress of a locked deletion. It is due again at `due_at`; never, if that is null. */
export const writeProgress = (sql: SqlClient.SqlClient, row: DeletionRow, due_at: Timestamp | null) => sql`
  UPDATE deletions
  SET
    status = ${row.status},
    phase = ${row.phase},
    cursor = ${row.cursor},
    due_at = ${due_at === null ? null : toDate(due_at)},
    runs = ${row.runs},
    feedback = ${row.feedback},
    examples = ${row.examples},
    sessions = ${row.sessions},
    finished_at = ${row.finished_at === null ? null : toDate(row.finished_at)}
  WHERE org_id = ${row.org_id}
    AND deletion_id = ${row.deletion_id}
`

/** Defers a deletion whose step failed. Outside of the transaction of the step, which was rolled back. */
export const deferDeletion = (
  sql: SqlClient.SqlClient,
  { deletion_id, org_id }: Pick<DeletionRow, "deletion_id" | "org_id">,
  due_at: Timestamp
) => sql`
  UPDATE deletions
  SET due_at = ${toDate(due_at)}
  WHERE org_id = ${org_id}
    AND deletion_id = ${deletion_id}
    AND due_at IS NOT NULL
`
