import { createHash } from "node:crypto"

const MODULUS = 2n ** 128n

/** Counts lines and adds up their hashes, so that the same lines in any order have the same digest. */
export const makeRowsDigest = () => {
  let rows = 0
  let sum = 0n
  return {
    add: (line: string): void => {
      rows++
      sum += BigInt(`0x${createHash("sha256").update(line).digest("hex").slice(0, 32)}`)
    },
    result: (): RowsDigest => ({ rows, digest: (sum % MODULUS).toString(16) })
  }
}

/** Number and digest of the rows of a table. */
export interface RowsDigest {
  readonly rows: number
  readonly digest: string
}
