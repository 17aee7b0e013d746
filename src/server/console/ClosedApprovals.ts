import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import {
  CLOSED_PAGE,
  ClosedCursor,
  type ClosedFilter,
  type ClosedPage,
  MAX_EXAMINED_APPROVALS
} from "../../api/console/ClosedApprovals.ts"
import type { Approval } from "../../domain/approvals/Approval.ts"
import { ApprovalId, type OrgId } from "../../domain/Ids.ts"
import { TimestampFromDate, toDate } from "../../domain/Time.ts"
import { approvalColumns, approvalRows, toApproval } from "../approvals/approvalRows.ts"
import { MAX_PAGE_BYTES, type Page } from "../store/Pagination.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { listedApprovals } from "./ApprovalFeed/rows.ts"

/** A request of a page. The cursor is the last approval of the page before. */
export type ClosedRequest = ClosedFilter & Partial<ClosedCursor>

/** The closed approvals of an organization, last closed first. */
export class ClosedApprovals extends Context.Service<
  ClosedApprovals,
  {
    /** One page, without arguments. It ends early after `MAX_EXAMINED_APPROVALS`, even if few of them match the filters. */
    readonly list: (request: ClosedRequest) => Effect.Effect<ClosedPage, never, Authorized<"approvals.read">>
    /** One page with arguments, of at most `MAX_PAGE_BYTES`, for an export. The cursor is a text. */
    readonly export: (
      filter: ClosedFilter,
      cursor: string | undefined
    ) => Effect.Effect<Page<Approval, string>, never, Authorized<"approvals.read">>
  }
>()("countersign/server/console/ClosedApprovals") {
  static readonly layer = Layer.effect(
    ClosedApprovals,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return ClosedApprovals.of({
        list: Effect.fn("ClosedApprovals.list")(function* (request) {
          const { org_id, scopes } = yield* Authorized("approvals.read")
          const { found, horizon } = yield* findClosed(sql, org_id, request)
          const shown = found.slice(0, CLOSED_PAGE)
          const last = found.length > CLOSED_PAGE ? shown.at(-1) : undefined
          const end = last === undefined ? horizon : toCursor(last)
          return {
            approvals: yield* listedApprovals(
              sql,
              org_id,
              shown.map(({ approval_id }) => approval_id),
              scopes.has("sessions.read")
            ),
            next_cursor: end,
            searched_to: last === undefined && horizon !== null ? horizon.before : null
          }
        }, Effect.orDie),
        export: Effect.fn("ClosedApprovals.export")(function* (filter, cursor) {
          const { org_id } = yield* Authorized("approvals.read")
          const { found, horizon } = yield* findClosed(sql, org_id, {
            ...filter,
            ...(cursor === undefined ? {} : yield* decodeCursor(cursor))
          })
          const shown = found.slice(0, CLOSED_PAGE)
          const rows = yield* readWithinBytes(
            sql,
            org_id,
            shown.map(({ approval_id }) => approval_id)
          )
          const read = rows.at(-1)?.approval_id
          const isCut = read !== undefined && read !== shown.at(-1)?.approval_id
          const last = isCut
            ? shown.find(({ approval_id }) => approval_id === read)
            : found.length > CLOSED_PAGE
              ? shown.at(-1)
              : undefined
          const end = last === undefined ? horizon : toCursor(last)
          return {
            items: rows.map(toApproval),
            next_cursor: end === null ? null : yield* encodeCursor(end)
          }
        }, Effect.orDie)
      })
    })
  )
}

const CursorText = Schema.fromJsonString(ClosedCursor)
const decodeCursor = Schema.decodeEffect(CursorText)
const encodeCursor = Schema.encodeEffect(CursorText)

/** The first of these approvals with their arguments, in this order: one, and more up to `MAX_PAGE_BYTES`. */
const readWithinBytes = (sql: SqlClient.SqlClient, org_id: OrgId, ids: ReadonlyArray<ApprovalId>) =>
  approvalRows.all(sql`
    SELECT ${sql.literal(approvalColumns)}
    FROM (
      SELECT approval_id, place, sum(arguments_bytes) OVER (ORDER BY place) AS bytes, row_number() OVER (ORDER BY place) AS number
      FROM unnest(${textArray(ids)}::text[]) WITH ORDINALITY AS wanted (approval_id, place)
        JOIN approvals USING (approval_id)
      WHERE org_id = ${org_id}
    ) AS measured
      JOIN approvals ON approvals.org_id = ${org_id} AND approvals.approval_id = measured.approval_id
    WHERE measured.number = 1
      OR measured.bytes <= ${MAX_PAGE_BYTES}::int
    ORDER BY measured.place
  `)

const ClosedRow = Schema.Struct({
  approval_id: ApprovalId,
  decided_at: TimestampFromDate,
  /** Whether it is not a match, but the last approval that was examined. */
  is_horizon: Schema.Boolean
})
const closedRows = rowsOf(ClosedRow)

const toCursor = ({ approval_id, decided_at }: typeof ClosedRow.Type): ClosedCursor => ({
  before: decided_at,
  before_id: approval_id
})

/** The matches of a page and one more, last closed first. `horizon`: where the search ended before the list did. */
export const findClosed = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: ClosedRequest,
  maxExamined = MAX_EXAMINED_APPROVALS
) =>
  Effect.map(closedRows.all(closedStatement(sql, org_id, request, maxExamined)), (rows) => {
    const end = rows.find(({ is_horizon }) => is_horizon)
    return {
      found: rows.filter(({ is_horizon }) => !is_horizon),
      horizon: end === undefined ? null : toCursor(end)
    }
  })

/** Examines approvals by the index of their close, as far back as a page may. */
export const closedStatement = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  { before, before_id, decided_by, outcome, since, tool, until }: ClosedRequest,
  maxExamined: number
) => {
  const matches = [
    ...(tool === undefined ? [] : [sql`tool = ${tool}`]),
    ...(decided_by === undefined ? [] : [sql`decided_by_id = ${decided_by}`]),
    ...(outcome === undefined
      ? []
      : [
          outcome === "decided"
            ? sql`status IN ('approved', 'rejected')`
            : outcome === "approved" || outcome === "rejected"
              ? sql`status = ${outcome}`
              : sql`(status = 'expired' AND decision_source = ${outcome})`
        ])
  ]
  const wanted = CLOSED_PAGE + 1
  const examined = matches.length === 0 ? wanted : maxExamined
  return sql`
    WITH examined AS MATERIALIZED (
      SELECT approval_id, decided_at, tool, status, decision_source, decided_by_id
      FROM approvals
      WHERE ${sql.and([
        sql`org_id = ${org_id}`,
        sql`decided_at IS NOT NULL`,
        ...(before === undefined
          ? []
          : [
              sql`(decided_at, approval_id) < (${toDate(before)}::timestamptz, ${before_id ?? ""}::text COLLATE "C")`
            ]),
        ...(since === undefined ? [] : [sql`decided_at >= ${toDate(since)}::timestamptz`]),
        ...(until === undefined ? [] : [sql`decided_at < ${toDate(until)}::timestamptz`])
      ])}
      ORDER BY decided_at DESC, approval_id DESC
      LIMIT ${examined}::int
    ), found AS MATERIALIZED (
      SELECT approval_id, decided_at
      FROM examined
      ${matches.length === 0 ? sql.literal("") : sql`WHERE ${sql.and(matches)}`}
      ORDER BY decided_at DESC, approval_id DESC
      LIMIT ${wanted}::int
    )
    SELECT approval_id, decided_at, false AS is_horizon
    FROM found
    UNION ALL
    (
      SELECT approval_id, decided_at, true
      FROM examined
      WHERE (SELECT count(*) FROM examined) = ${examined}::int
        AND (SELECT count(*) FROM found) < ${wanted}::int
      ORDER BY decided_at, approval_id
      LIMIT 1
    )
    ORDER BY 3, 2 DESC, 1 DESC
  `
}
