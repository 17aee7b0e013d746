import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
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
  })

  it("an entry that is heavier than the limit evicts no other one, and is reported to onEvict", () => {
    const evicted: Array<number> = []
    const cache = new LruCache<number>({ entries: 10, weight: 10 }, (value) => evicted.push(value))
    cache.set("a", 1, 1)
    cache.set("b", 2, 1)
    cache.set("c", 3, 11)
    assert.deepStrictEqual(
      [evicted, [...cache.entries()]],
      [
        [3],
        [
          ["a", 1],
          ["b", 2]
        ]
      ]
    )
    cache.set("a", 4, 11)
    assert.deepStrictEqual([evicted, [...cache.entries()]], [[3, 4], [["b", 2]]])
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

  it("whatever the calls, it has the entries of a list that is kept in the order of use", () => {
    const key = fc.constantFrom("a", "b", "c", "d", "e")
    const call = fc.oneof(
      fc.record({ name: fc.constant("get" as const), key }),
      fc.record({ name: fc.constant("delete" as const), key }),
      fc.record({ name: fc.constant("set" as const), key, weight: fc.nat(12) })
    )
    fc.assert(
      fc.property(fc.array(call, { maxLength: 40 }), (calls) => {
        const evicted: Array<number> = []
        const cache = new LruCache<number>({ entries: 3, weight: 10 }, (value) => evicted.push(value))
        let list: ReadonlyArray<{ readonly key: string; readonly value: number; readonly weight: number }> =
          []
        const expected: Array<number> = []
        for (const [value, one] of calls.entries()) {
          const found = list.find((entry) => entry.key === one.key)
          const others = list.filter((entry) => entry !== found)
          if (one.name === "get") {
            assert.strictEqual(cache.get(one.key), found?.value)
            list = found === undefined ? others : [...others, found]
          } else if (one.name === "delete") {
            assert.strictEqual(cache.delete(one.key), found?.value)
            list = others
          } else {
            cache.set(one.key, value, one.weight)
            list = others
            if (one.weight > 10) expected.push(value)
            else list = [...others, { key: one.key, value, weight: one.weight }]
            while (list.length > 3 || list.reduce((sum, { weight }) => sum + weight, 0) > 10) {
              expected.push(list[0]?.value ?? -1)
              list = list.slice(1)
            }
          }
          assert.deepStrictEqual(
            [...cache.entries()],
            list.map((entry) => [entry.key, entry.value])
          )
        }
        assert.deepStrictEqual(evicted, expected)
      })
    )
  })
})
