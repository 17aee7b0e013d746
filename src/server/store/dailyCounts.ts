/**
 * Parts of the statements that count rows by day. The statement that writes rows also counts them, so that a count is exact after a
 * crash, in one form for each table: `approvalCounts`, `deliveryCounts`, `feedbackCounts`, `runCounts`. A count is the sum over slots.
 *
 * All statements lock the rows of a count in the order of its key, or two of them could deadlock. PostgreSQL executes changes in `WITH`
 * that nothing reads from the last to the first, so counts are listed right after the change that they count: then they are locked last.
 */

/** Whether rows are added to the counts or subtracted. */
export type Sign = 1 | -1

/** SQL of the day of a column, in UTC. */
export const dayOf = (column: string): string => `(${column} AT TIME ZONE 'UTC')::date`

/** SQL of the slot that this connection adds to. Concurrent statements add to different ones, most of the time. */
export const slotOf = (slots: number): string => `pg_backend_pid() % ${slots}`

/** SQL of columns of a table, for `RETURNING`. */
export const columnsOf = (columns: ReadonlyArray<string>, table?: string): string =>
  columns.map((column) => (table === undefined ? column : `${table}.${column}`)).join(", ")
