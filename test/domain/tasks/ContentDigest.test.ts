import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { ContentDigest, STATE_BYTES } from "../../../src/domain/tasks/ContentDigest.ts"

const of = (members: ReadonlyArray<string>) => {
  const content = ContentDigest.empty()
  for (const member of members) content.add(member)
  return content
}

describe("the digest of a collection", () => {
  it("is the same in any order, and undone by taking out", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string(), { maxLength: 8 }),
        fc.array(fc.string(), { maxLength: 4 }),
        (kept, gone) => {
          const content = of([...gone, ...kept])
          for (const member of gone) content.remove(member)
          assert.strictEqual(content.digest(), of(kept.toReversed()).digest())
        }
      ),
      { numRuns: 50 }
    )
  })

  it("differs by any member, and by how often one is there", () => {
    const digests = [[], ["a"], ["a", "a"], ["b"], ["a", "b"], ["ab"]].map((members) => of(members).digest())
    assert.strictEqual(new Set(digests).size, digests.length)
    for (const digest of digests) assert.match(digest, /^[0-9a-f]{64}$/)
  })

  it("goes on from what was kept", () => {
    const kept = of(["a"]).state()
    assert.lengthOf(kept, STATE_BYTES)
    // A view into a larger buffer, as a driver gives it.
    const buffer = new Uint8Array(STATE_BYTES + 3)
    buffer.set(kept, 3)
    const content = ContentDigest.from(buffer.subarray(3))
    content.add("b")
    assert.strictEqual(content.digest(), of(["a", "b"]).digest())
  })

  it("stays what it was: stored versions go by it", () => {
    assert.strictEqual(of(["a"]).digest(), GOLDEN)
  })
})

const GOLDEN = "d6115fe626edb1b7eb11a52a5ad7d2bd8c213c71247ca1a082df39dacb20af17"
