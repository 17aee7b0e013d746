import { Array as Arr, Context, Effect, Layer, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { AuditFilter } from "../../api/AuditLog.ts"
import { Authorized } from "../../api/Authorization.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { AuditAction, type AuditEntry } from "../../domain/identity/AuditEntry.ts"
import { openEnum } from "../../domain/OpenEnum.ts"
import { AuditEntryId, KeyId, type OrgId } from "../../domain/Ids.ts"
import { type Actor, actorOf } from "../../domain/identity/Principal.ts"
import { TimestampFromDate } from "../../domain/Time.ts"
import { NO_REQUEST, RequestId } from "../observability/RequestId.ts"
import { findMatches } from "../store/findMatches.ts"
import { afterCursor, type Page, rowLimit, sqlDirection, toPage } from "../store/Pagination.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { type NewAuditRow, recordEntry } from "./auditWrites.ts"

/** The author of a change: a request's principal, or the operator, who has no key (`actor` is null). */
export interface Author {
  /** The organization whose log gets the entry. */
  readonly org_id: OrgId
  /** The acting API key; null for the operator, on the command line or at the first start. */
  readonly actor: Actor | null
}

/** Makes the row of an entry, for a statement that writes it beside the change. */
export type PrepareAuditRow = (
  author: Author,
  action: AuditAction,
  target_id: string,
  detail?: AuditEntry["detail"]
) => Effect.Effect<NewAuditRow>

/** For services without requests; others use `Audit.prepare`. */
export const makePrepare = (clock: StoreClock["Service"]): PrepareAuditRow =>
  Effect.fnUntraced(function* ({ actor, org_id }, action, target_id, detail = {}) {
    const request_id = yield* RequestId
    const occurred_at = yield* clock.now
    return {
      org_id,
      entry_id: yield* AuditEntryId.generateAt(occurred_at),
      action,
      target_id,
      actor_id: actor?.id ?? null,
      actor_name: actor?.name ?? null,
      occurred_at,
      request_id: request_id === NO_REQUEST ? null : request_id,
      detail: JSON.stringify(detail)
    }
  })

/** The filters of a list: of the API, and several actions at once. */
type AuditListFilter = Omit<AuditFilter, "action"> & {
  readonly action?: AuditAction | ReadonlyArray<AuditAction>
}

/** The append-only log of who changed what. */
export class Audit extends Context.Service<
  Audit,
  {
    /**
     * Writes an entry when the caller's transaction, which makes the recorded change, commits; outside a transaction it is a defect. Every
     * admin of the organization can read `detail`: it must not contain secrets. Returns the entry's id.
     */
    readonly record: (
      author: Author,
      action: AuditAction,
      target_id: string,
      detail?: AuditEntry["detail"]
    ) => Effect.Effect<AuditEntryId>
    readonly prepare: PrepareAuditRow
    /** Newest first. */
    readonly list: (
      request: PageRequest<AuditEntryId> & AuditListFilter
    ) => Effect.Effect<Page<AuditEntry, AuditEntryId>, never, Authorized<"approvals.admin">>
  }
>()("countersign/server/identity/Audit") {
  static readonly layer = Layer.effect(
    Audit,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock

      const prepare = makePrepare(clock)

      return Audit.of({
        prepare,
        record: Effect.fn("Audit.record")(function* (author, action, target_id, detail) {
          const row = yield* prepare(author, action, target_id, detail)
          yield* recordEntry(row)
          return row.entry_id
        }),
        list: Effect.fn("Audit.list")(function* (request) {
          const { org_id } = yield* Authorized("approvals.admin")
          const { horizon, rows } = yield* listRows(sql, org_id, request)
          const page = toPage(request, rows.map(toEntry), (entry) => entry.id)
          return page.next_cursor !== null || horizon === null
            ? page
            : { items: page.items, next_cursor: AuditEntryId.make(horizon, { disableChecks: true }) }
        }, Effect.orDie)
      })
    })
  )
}

/**
 * The rows of a page, and the last one that was examined if the search ended before the list did. One filter is looked up by an index; rows
 * are examined for the others.
 */
const listRows = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: PageRequest<AuditEntryId> & AuditListFilter
) {
  const { action, actor_id, cursor, occurred_after, occurred_before, order, target_id, text } = request
  const limit = rowLimit(request)
  const actions = typeof action === "string" ? [action] : Arr.dedupe(action ?? [])
  const [indexed, ...others] = [
    ...(target_id === undefined ? [] : [sql`target_id = ${target_id}`]),
    ...(actor_id === undefined ? [] : [sql`actor_id = ${actor_id}`]),
    ...(actions.length === 1 ? [sql`action = ${actions[0]}`] : [])
  ]
  const ofActions = actions.length > 1 ? [sql`action = ANY(${textArray(actions)}::text[])`] : []
  const where = sql.and([
    sql`org_id = ${org_id}`,
    ...(indexed === undefined ? [] : [indexed]),
    ...(occurred_after === undefined ? [] : [sql`entry_id >= ${AuditEntryId.lowerBound(occurred_after)}`]),
    ...(occurred_before === undefined ? [] : [sql`entry_id < ${AuditEntryId.lowerBound(occurred_before)}`])
  ])
  const onPage = (condition: Statement.Fragment) => sql`
    WHERE ${condition}
      ${afterCursor(sql, "entry_id", cursor, order)}
    ORDER BY entry_id ${sql.literal(sqlDirection(order))}
    LIMIT ${limit}
  `
  const select = (condition: Statement.Fragment) =>
    auditRows.all(sql`
      SELECT entry_id, action, target_id, actor_id, actor_name, occurred_at, request_id, detail
      FROM audit_log
      ${onPage(condition)}
    `)
  if (text !== undefined || others.length > 0 || (indexed !== undefined && ofActions.length > 0)) {
    const found = yield* findMatches(sql, {
      table: "audit_log",
      id: "entry_id",
      text: SEARCHED_TEXT,
      where,
      conditions: [...others, ...ofActions],
      words: text ?? "",
      order,
      cursor,
      limit
    })
    const rows = yield* select(sql`org_id = ${org_id} AND entry_id = ANY(${textArray(found.ids)}::text[])`)
    return { rows, horizon: found.horizon }
  }
  // The index has the entries of one action in their order, not those of several.
  const rows = yield* ofActions.length === 0
    ? select(where)
    : select(sql`org_id = ${org_id} AND entry_id = ANY(ARRAY(
        SELECT entry_id
        FROM unnest(${textArray(actions)}::text[]) AS chosen (action)
          CROSS JOIN LATERAL (
            SELECT entry_id
            FROM audit_log
            ${onPage(sql`${where} AND audit_log.action = chosen.action`)}
          ) AS of_action
      ))`)
  return { rows, horizon: null }
})

/** The searched text of an entry. */
const SEARCHED_TEXT = "concat_ws(' ', action, target_id, actor_name, left(detail::text, 4096))"

const AuditRow = Schema.Struct({
  entry_id: AuditEntryId,
  // A newer replica may have recorded an action that this version does not know.
  action: openEnum(AuditAction),
  target_id: Schema.String,
  actor_id: Schema.NullOr(KeyId),
  actor_name: Schema.NullOr(Schema.String),
  occurred_at: TimestampFromDate,
  request_id: Schema.NullOr(Schema.String),
  detail: Schema.Record(Schema.String, Schema.Json)
})
const auditRows = rowsOf(AuditRow)

const toEntry = ({ actor_id, actor_name, entry_id, ...row }: typeof AuditRow.Type): AuditEntry => ({
  ...row,
  id: entry_id,
  actor: actorOf(actor_id, actor_name)
})
