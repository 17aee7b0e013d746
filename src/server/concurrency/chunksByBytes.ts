/** Rows, and bytes of what they stand for, that are read at once. */
const ROWS_AT_ONCE = 200
const BYTES_AT_ONCE = 4 * 2 ** 20

/** Rows in the pieces in which what they stand for is read: at most 200 and some 4 MiB, one at least. */
export function* chunksByBytes<Row extends { readonly bytes: number }>(
  rows: Iterable<Row>
): Generator<ReadonlyArray<Row>> {
  let piece: Array<Row> = []
  let bytes = 0
  for (const row of rows) {
    if (piece.length === ROWS_AT_ONCE || (piece.length > 0 && bytes + row.bytes > BYTES_AT_ONCE)) {
      yield piece
      piece = []
      bytes = 0
    }
    piece.push(row)
    bytes += row.bytes
  }
  if (piece.length > 0) yield piece
}
