import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { ApprovalFilter } from "../../api/AgentApprovals.ts"
import { DEFAULT_LIMIT, type PageRequest } from "../../api/Pagination.ts"
import type { ApprovalId, OrgId } from "../../domain/Ids.ts"
import { MAX_PAGE_BYTES, rowLimit } from "../store/Pagination.ts"
import { rowsOf } from "../store/rows.ts"
import { approvalColumns, ApprovalRow } from "./approvalRows.ts"

const listedRows = rowsOf(Schema.Struct({ ...ApprovalRow.fields, found: Schema.Int }))

/** Rows of a page of an organization's approvals, newest first, for `toPageWithinBytes`. Arguments are read only for the page itself. */
export const listApprovals = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: PageRequest<ApprovalId> & ApprovalFilter
) =>
  listedRows.all(sql`
    WITH candidates AS (
      SELECT approval_id, arguments_bytes
      FROM approvals
      WHERE ${sql.and([
        sql`org_id = ${org_id}`,
        ...(request.cursor === undefined ? [] : [sql`approval_id < ${request.cursor}`]),
        ...(request.status === undefined ? [] : [sql`status = ${request.status}`]),
        ...(request.session_id === undefined ? [] : [sql`session_id = ${request.session_id}`]),
        ...(request.task_id === undefined ? [] : [sql`task_id = ${request.task_id}`])
      ])}
      ORDER BY approval_id DESC
      LIMIT ${rowLimit(request)}
    ), measured AS (
      SELECT
        approval_id,
        row_number() OVER newest AS place,
        sum(arguments_bytes) OVER newest AS bytes,
        count(*) OVER ()::int AS found
      FROM candidates
      WINDOW newest AS (ORDER BY approval_id DESC)
    )
    SELECT ${sql.literal(approvalColumns)}, measured.found
    FROM measured
      JOIN approvals ON approvals.org_id = ${org_id} AND approvals.approval_id = measured.approval_id
    WHERE measured.place = 1
      OR (measured.place <= ${request.limit ?? DEFAULT_LIMIT}::int AND measured.bytes <= ${MAX_PAGE_BYTES}::int)
    ORDER BY measured.place
  `)
