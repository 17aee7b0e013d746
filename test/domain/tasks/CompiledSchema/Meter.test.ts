import { assert, describe, it } from "@effect/vitest"
import { workFor } from "../../../../src/domain/tasks/CompiledSchema/Meter.ts"

/** An object of many members that counts how many of them are read. */
const counted = (length: number) => {
  const reads = { count: 0 }
  const members = Object.fromEntries(Array.from({ length }, (_, index) => [`k${index}`, index]))
  const value: unknown = new Proxy(members, {
    get: (target, name) => {
      reads.count++
      return Reflect.get(target, name)
    }
  })
  return { reads, value }
}

describe("workFor", () => {
  it("a larger value may take more work, up to a maximum", () => {
    const small = workFor({ a: 1 })
    const large = workFor({ a: Array.from({ length: 10_000 }, () => 1) })
    const larger = workFor({ a: Array.from({ length: 1_000_000 }, () => 1) })
    assert.isAbove(large, small)
    assert.isAbove(larger, large)
    assert.strictEqual(workFor([larger, Array.from({ length: 2_000_000 }, () => 1)]), larger)
  })

  it("stops reading an object of many members once the maximum is reached", () => {
    const few = counted(100)
    workFor(few.value)
    assert.strictEqual(few.reads.count, 100)
    const many = counted(400_000)
    workFor(many.value)
    assert.isBelow(many.reads.count, 50_000)
  })
})
