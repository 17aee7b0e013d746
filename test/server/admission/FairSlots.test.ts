import { assert, describe, it } from "@effect/vitest"
import { makeFairSlots } from "../../../src/server/admission/FairSlots.ts"

/** Slots for named holders, and the names of the ended holders. */
const setUp = (max: number) => {
  const ended: Array<string> = []
  const slots = makeFairSlots<string, { readonly name: string }>({ max, end: ({ name }) => ended.push(name) })
  const add = (key: string, count: number) =>
    Array.from({ length: count }, (_, index) => {
      const holder = { name: `${key}${index}` }
      slots.add(key, holder)
      return holder
    })
  return { add, ended, slots }
}

describe("FairSlots", () => {
  it("two keys that use all slots leave a third key its share", () => {
    const { add, ended, slots } = setUp(12)
    add("a", 7)
    add("b", 5)
    for (let count = 0; slots.hasSlotFor("c"); count++) add("c", 1)
    assert.deepStrictEqual(
      ["a", "b", "c"].map((key) => slots.sizeOf(key)),
      [4, 4, 4]
    )
    assert.strictEqual(slots.size(), 12)
    assert.deepStrictEqual(ended, ["a6", "a5", "a4", "b4"])
  })

  it("the key with the most slots gets no further one, and ends none", () => {
    const { add, ended, slots } = setUp(4)
    add("a", 3)
    add("b", 1)
    assert.isFalse(slots.hasSlotFor("a"))
    assert.isTrue(slots.hasSlotFor("b"))
    assert.deepStrictEqual(ended, [])
  })

  it("two keys that differ by one slot do not take it from each other", () => {
    const { add, ended, slots } = setUp(3)
    add("a", 2)
    add("b", 1)
    assert.isFalse(slots.hasSlotFor("b"))
    assert.deepStrictEqual(ended, [])
  })

  it("a key that may not lose a slot keeps all of them, and of another key goes the holder that it gives up first", () => {
    const ended: Array<string> = []
    const slots = makeFairSlots<string, { readonly name: string }>({
      max: 6,
      end: ({ name }) => ended.push(name),
      mayLose: (key) => key !== "proxy",
      firstToEnd: (holders) => holders.find(({ name }) => name === "idle")
    })
    for (const name of ["p0", "p1", "p2"]) slots.add("proxy", { name })
    for (const name of ["busy", "idle", "newest"]) slots.add("a", { name })
    slots.add("b", { name: "b0" })
    assert.isFalse(slots.hasSlotFor("b"))
    assert.deepStrictEqual(ended, ["idle"])
    assert.deepStrictEqual([slots.sizeOf("proxy"), slots.sizeOf("a"), slots.sizeOf("b")], [3, 2, 1])
  })

  it("a returned slot is free, and returning it twice changes nothing", () => {
    const { add, slots } = setUp(2)
    const [first] = add("a", 2)
    assert(first !== undefined)
    slots.remove("a", first)
    slots.remove("a", first)
    assert.strictEqual(slots.size(), 1)
    assert.isTrue(slots.hasSlotFor("a"))
  })
})
