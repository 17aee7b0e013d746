import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { rateLimit, takeToken } from "../../../src/domain/identity/RateLimit.ts"
import { makeTokenBuckets } from "../../../src/server/admission/TokenBuckets.ts"

/** How many of so many requests are allowed at once. */
const allowed = (buckets: ReturnType<typeof makeTokenBuckets>, name: string, now: number, count: number) =>
  Array.from({ length: count }, () => buckets.take(name, now)).filter(({ allowed }) => allowed).length

describe("TokenBuckets", () => {
  it("at any times, each name is allowed the same as by a bucket of its own that is never evicted", () => {
    const limit = rateLimit(3)
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 700 }), fc.constantFrom("a", "b", "c")), {
          maxLength: 200
        }),
        (requests) => {
          const buckets = makeTokenBuckets(limit)
          const alone = new Map<string, number>()
          let now = 0
          for (const [gap, name] of requests) {
            now += gap
            const expected = takeToken(limit, alone.get(name) ?? now, now)
            alone.set(name, expected.fullAt)
            const taken = buckets.take(name, now)
            assert.deepStrictEqual([taken.allowed, taken.remaining], [expected.allowed, expected.remaining])
          }
        }
      ),
      { numRuns: 200 }
    )
  })

  it("a name that owes more than a window's tokens is refused until they are paid for, however many windows pass", () => {
    const buckets = makeTokenBuckets(rateLimit(10))
    buckets.charge("a", 50, 0)
    for (let now = 0; now <= 4_000; now += 500) {
      assert.strictEqual(buckets.take("other", now).allowed, true)
      assert.strictEqual(buckets.take("a", now).allowed, false, `after ${now} ms`)
    }
    assert.strictEqual(allowed(buckets, "a", 4_500, 20), 5)
    assert.strictEqual(allowed(buckets, "a", 20_000, 20), 10)
  })

  it("a reservation that would wait too long takes nothing", () => {
    const buckets = makeTokenBuckets(rateLimit(1))
    assert.deepStrictEqual(
      [0, 1, 2, 3, 4].map(() => buckets.reserve("a", 0, 2_000)),
      [0, 1_000, 2_000, undefined, undefined]
    )
    assert.strictEqual(buckets.reserve("a", 1_000, 2_000), 2_000)
  })

  it("a token that is given back can be taken again", () => {
    const buckets = makeTokenBuckets(rateLimit(2))
    assert.strictEqual(allowed(buckets, "a", 0, 3), 2)
    buckets.charge("a", -1, 0)
    assert.strictEqual(allowed(buckets, "a", 0, 3), 1)
  })

  it("a flood of names evicts no name that owes tokens, and the first of them within its window only", () => {
    const buckets = makeTokenBuckets(rateLimit(1))
    buckets.charge("debtor", 60, 0)
    buckets.take("first", 0)
    for (let name = 0; name < 150_000; name++) buckets.take(`flood ${name}`, 0)
    assert.strictEqual(buckets.take("debtor", 0).allowed, false)
    assert.strictEqual(buckets.take("first", 0).allowed, false)
    for (let name = 0; name < 150_000; name++) buckets.take(`more ${name}`, 0)
    assert.strictEqual(buckets.take("debtor", 0).allowed, false)
    assert.strictEqual(buckets.take("first", 0).allowed, true)
  })
})
