/** The largest number of rows in a chunk. */
const MAX_ROWS = 200

/** The largest total of `bytes` in a chunk of more than one row. */
const MAX_BYTES = 4 * 2 ** 20

/** Splits rows into chunks of at most 200 rows and 4 MiB by their `bytes`. A larger row is a chunk of its own. */
export function* chunksByBytes<Row extends { readonly bytes: number }>(
  rows: Iterable<Row>
): Generator<ReadonlyArray<Row>> {
  let chunk: Array<Row> = []
  let bytes = 0
  for (const row of rows) {
    if (chunk.length === MAX_ROWS || (chunk.length > 0 && bytes + row.bytes > MAX_BYTES)) {
      yield chunk
      chunk = []
      bytes = 0
    }
    chunk.push(row)
    bytes += row.bytes
  }
  if (chunk.length > 0) yield chunk
}
