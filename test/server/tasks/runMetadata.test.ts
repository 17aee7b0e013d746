import { assert, describe, it } from "vitest"
import { findInServer } from "../../support/serverSources.ts"

/** The modules in which a pattern is found, once for each place. */
const modulesWith = (pattern: RegExp) => findInServer(pattern).map((found) => found.split(":")[0])

describe("run_metadata", () => {
  it("every statement that inserts or deletes runs also writes their entries in the index of metadata", () => {
    const [inserting, deleting] = [modulesWith(/\bINSERT INTO runs\b/g), modulesWith(/\bDELETE FROM runs\b/g)]
    assert.lengthOf([...inserting, ...deleting], 4)
    assert.deepStrictEqual(modulesWith(/\baddedMetadata\(sql, /g), inserting)
    assert.deepStrictEqual(modulesWith(/\bremovedEntries\(sql, /g), deleting)
  })
})
