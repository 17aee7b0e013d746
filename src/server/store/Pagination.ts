import type { Option } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { DEFAULT_LIMIT, type PageRequest } from "../../api/Pagination.ts"

/** One page of a list, with the keyset cursor of the next page; null on the last page. */
export interface Page<Item, Id> {
  readonly items: ReadonlyArray<Item>
  readonly next_cursor: Id | null
}

/** A position in an export, and the line there, if there is one. */
export interface ExportedLine<A> {
  readonly id: string
  readonly line: Option.Option<A>
}

/**
 * The most bytes of items in a page: a hundred items of 2.5 KiB. A larger first item is a page of its own. Decoding and encoding a page
 * holds the event loop, for up to 50 ms if its items were made for that.
 */
export const MAX_PAGE_BYTES = 256 * 1024

/** The number of rows to select: one more than the page, which shows whether there is another page. */
export const rowLimit = (request: PageRequest<string>): number => (request.limit ?? DEFAULT_LIMIT) + 1

/** An SQL condition, starting with AND, for rows whose id in `column` is below the cursor. Empty for the first page. */
export const beforeCursor = (
  sql: SqlClient.SqlClient,
  column: string,
  cursor: string | undefined
): Statement.Fragment => (cursor === undefined ? sql.literal("") : sql`AND ${sql(column)} < ${cursor}`)

/** The orders of a list by its ids, which are in the order of creation. */
export type ListOrder = "newest" | "oldest"

/** The SQL direction of an order; newest first by default. */
export const sqlDirection = (order: ListOrder | undefined): "ASC" | "DESC" =>
  order === "oldest" ? "ASC" : "DESC"

/** An SQL condition, starting with AND, for rows that follow the cursor in an order. Empty for the first page. */
export const afterCursor = (
  sql: SqlClient.SqlClient,
  column: string,
  cursor: string | undefined,
  order: ListOrder | undefined
): Statement.Fragment =>
  cursor === undefined || order !== "oldest"
    ? beforeCursor(sql, column, cursor)
    : sql`AND ${sql(column)} > ${cursor}`

/**
 * The page of a list by keyset, within `MAX_PAGE_BYTES`: `ctes` end in the table `sized` with the ids, `isOnPage`
 * selects the page's ids, and `found` is for `toPageWithinBytes`. `bytes` measures a row. The content of the other rows
 * is not sent.
 */
export const pageWithinBytes = (
  sql: SqlClient.SqlClient,
  list: {
    readonly table: string
    readonly id: string
    readonly bytes: string
    readonly where: Statement.Fragment
    readonly request: PageRequest<string>
    readonly order?: ListOrder | undefined
  }
) => ({
  ctes: sql`
    WITH scanned AS MATERIALIZED (
      SELECT ${sql(list.id)}, ${sql.literal(list.bytes)} AS bytes
      FROM ${sql(list.table)}
      WHERE ${list.where}
        ${afterCursor(sql, list.id, list.request.cursor, list.order)}
      ORDER BY ${sql(list.id)} ${sql.literal(sqlDirection(list.order))}
      LIMIT ${rowLimit(list.request)}
    ),
    sized AS (
      SELECT
        ${sql(list.id)},
        sum(bytes) OVER (ORDER BY ${sql(list.id)} ${sql.literal(sqlDirection(list.order))}) AS bytes,
        row_number() OVER (ORDER BY ${sql(list.id)} ${sql.literal(sqlDirection(list.order))}) AS number,
        count(*) OVER ()::int AS found
      FROM scanned
    )`,
  isOnPage: sql`(sized.number = 1 OR (sized.number < ${rowLimit(list.request)}::int AND sized.bytes <= ${MAX_PAGE_BYTES}::int))`
})

/** A page from rows that were selected with `rowLimit`. */
export const toPage = <Item, Id extends string>(
  request: PageRequest<Id>,
  rows: ReadonlyArray<Item>,
  id: (item: Item) => Id
): Page<Item, Id> => {
  const limit = request.limit ?? DEFAULT_LIMIT
  const items = rows.slice(0, limit)
  const last = rows.length > limit ? items.at(-1) : undefined
  return { items, next_cursor: last === undefined ? null : id(last) }
}

/**
 * A page from rows that the statement has already limited by bytes. `found` counts the selected rows, with the one after the page: if it is
 * more than the returned rows, there is another page.
 */
export const toPageWithinBytes = <Row extends { readonly found: number }, Item, Id extends string>(
  rows: ReadonlyArray<Row>,
  item: (row: Row) => Item,
  id: (row: Row) => Id
): Page<Item, Id> => {
  const last = rows.at(-1)
  return {
    items: rows.map(item),
    next_cursor: last === undefined || rows.length === last.found ? null : id(last)
  }
}
