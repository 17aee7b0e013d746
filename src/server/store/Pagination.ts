import type { SqlClient, Statement } from "effect/sql"
import { DEFAULT_LIMIT, type PageRequest } from "../../api/Pagination.ts"

/** One page of a list: the items, and the id to go on from; null at the end. */
export interface Page<Item, Id> {
  readonly items: ReadonlyArray<Item>
  readonly next_cursor: Id | null
}

/** The most bytes of the items of one page, unless its first alone has more: it ends before the one that would pass them. */
export const MAX_PAGE_BYTES = 8 * 2 ** 20

/** How many rows to ask the store for: one more than the page holds tells whether there is another page. */
export const rowLimit = (request: PageRequest<string>): number => (request.limit ?? DEFAULT_LIMIT) + 1

/** What goes on with the last page, within a condition: only rows whose id in `column` is older than the cursor. Nothing for the first. */
export const beforeCursor = (
  sql: SqlClient.SqlClient,
  column: string,
  cursor: string | undefined
): Statement.Fragment => (cursor === undefined ? sql.literal("") : sql`AND ${sql(column)} < ${cursor}`)

/** A page from the rows of `rowsFor`. */
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
 * A page from rows that the store has cut to the page: each says how many rows it found, with the one after the page. Fewer that were
 * given out mean that there is another page.
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
