import { assert, describe, it } from "@effect/vitest"
import { LruCache } from "../../../src/server/concurrency/LruCache.ts"

describe("LruCache", () => {
  it("the least recently read entry is evicted past the limit of entries", () => {
    const cache = new LruCache<number>({ entries: 2, weight: 10 })
    cache.set("a", 1, 1)
    cache.set("b", 2, 1)
    assert.strictEqual(cache.get("a"), 1)
    cache.set("c", 3, 1)
    assert.isUndefined(cache.get("b"))
    assert.deepStrictEqual(
      [...cache.entries()],
      [
        ["a", 1],
        ["c", 3]
      ]
    )
  })

  it("entries are evicted until the total weight fits, and reported to onEvict", () => {
    const evicted: Array<number> = []
    const cache = new LruCache<number>({ entries: 10, weight: 10 }, (value) => evicted.push(value))
    cache.set("a", 1, 4)
    cache.set("b", 2, 4)
    cache.set("c", 3, 9)
    assert.deepStrictEqual(evicted, [1, 2])
    cache.set("d", 4, 11)
    assert.deepStrictEqual(evicted, [1, 2, 3, 4])
    assert.deepStrictEqual([...cache.entries()], [])
  })

  it("a deleted or replaced entry frees its weight and is not reported to onEvict", () => {
    const evicted: Array<number> = []
    const cache = new LruCache<number>({ entries: 10, weight: 10 }, (value) => evicted.push(value))
    cache.set("a", 1, 6)
    cache.set("a", 2, 8)
    assert.strictEqual(cache.delete("a"), 2)
    assert.isUndefined(cache.delete("a"))
    cache.set("b", 3, 10)
    assert.deepStrictEqual([evicted, cache.get("b")], [[], 3])
  })
})
