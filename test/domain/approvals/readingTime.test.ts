import { assert, describe, it } from "@effect/vitest"
import {
  leastReadingSeconds,
  selectRead,
  type TimedDecision
} from "../../../src/domain/approvals/readingTime.ts"

/** A decision at a second, requested at another. */
const decision = (
  decided: number,
  { by = "ada", characters = 0, requested = -10_000 } = {}
): TimedDecision => ({
  requested_at: requested * 1_000,
  decided_at: decided * 1_000,
  decided_by: by,
  characters
})

const countRead = (decisions: ReadonlyArray<TimedDecision>): number => selectRead(decisions).size

describe("reading time", () => {
  it("is a second and the text at the fastest reading speed, and limited", () => {
    assert.strictEqual(leastReadingSeconds(0), 1)
    assert.strictEqual(leastReadingSeconds(700), 11)
    assert.strictEqual(leastReadingSeconds(1_000_000), 30)
  })

  it("a decision sooner after its request than the request can be read does not count", () => {
    assert.strictEqual(countRead([decision(10, { requested: 0, characters: 700 })]), 0)
    assert.strictEqual(countRead([decision(11, { requested: 0, characters: 700 })]), 1)
  })

  it("decisions of one person share the time of that person, and those of others have their own", () => {
    const burst = (by: string) => Array.from({ length: 100 }, () => decision(0, { by, characters: 2_030 }))
    // Ten minutes are enough to read 20 long requests of 30 seconds.
    assert.strictEqual(countRead(burst("ada")), 20)
    assert.strictEqual(countRead([...burst("ada"), ...burst("bob")]), 40)
    // A minute later there was time for two more.
    const later = Array.from({ length: 100 }, () => decision(60, { characters: 2_030 }))
    assert.strictEqual(countRead([...later, ...burst("ada")]), 22)
  })

  it("time that was not used accumulates up to ten minutes", () => {
    const first = decision(0, { characters: 2_030 })
    const burst = Array.from({ length: 100 }, () => decision(1_000_000, { characters: 2_030 }))
    assert.strictEqual(countRead([first, ...burst]), 21)
  })
})
