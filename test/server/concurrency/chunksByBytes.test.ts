import { assert, it } from "@effect/vitest"
import { chunksByBytes } from "../../../src/server/concurrency/chunksByBytes.ts"

it("chunksByBytes(): chunks have at most 200 rows and 4 MiB, at least one row, and together all rows", () => {
  const sizes = (...bytes: ReadonlyArray<number>) =>
    [...chunksByBytes(bytes.map((bytes) => ({ bytes })))].map((piece) => piece.map(({ bytes }) => bytes))
  const mebibyte = 2 ** 20
  assert.deepStrictEqual(sizes(), [])
  assert.deepStrictEqual(sizes(3 * mebibyte, mebibyte, 1, 9 * mebibyte, 2, 3), [
    [3 * mebibyte, mebibyte],
    [1],
    [9 * mebibyte],
    [2, 3]
  ])
  assert.deepStrictEqual(
    sizes(...Array.from({ length: 401 }, () => 1)).map(({ length }) => length),
    [200, 200, 1]
  )
})
