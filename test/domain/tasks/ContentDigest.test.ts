import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { ContentDigest, STATE_BYTES } from "../../../src/domain/tasks/ContentDigest.ts"

const of = (members: ReadonlyArray<string>) => {
  const content = ContentDigest.empty()
  for (const member of members) content.add(member)
  return content
}

describe("ContentDigest", () => {
  it("the digest does not depend on the order, and removing a member undoes adding it", () => {
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

  it("the digest changes with each member and with its count", () => {
    const digests = [[], ["a"], ["a", "a"], ["b"], ["a", "b"], ["ab"]].map((members) => of(members).digest())
    assert.strictEqual(new Set(digests).size, digests.length)
    for (const digest of digests) assert.match(digest, /^[0-9a-f]{64}$/)
  })

  it("a stored state can be restored and continued", () => {
    const kept = of(["a"]).state()
    assert.lengthOf(kept, STATE_BYTES)
    // A view into a larger buffer, as the database driver returns it.
    const buffer = new Uint8Array(STATE_BYTES + 3)
    buffer.set(kept, 3)
    const content = ContentDigest.from(buffer.subarray(3))
    content.add("b")
    assert.strictEqual(content.digest(), of(["a", "b"]).digest())
  })

  it("the digest of a known collection is fixed, because stored versions contain it", () => {
    assert.strictEqual(of(["a"]).digest(), GOLDEN)
  })
})

const GOLDEN = "d6115fe626edb1b7eb11a52a5ad7d2bd8c213c71247ca1a082df39dacb20af17"
