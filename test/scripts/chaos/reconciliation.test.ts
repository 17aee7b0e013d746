import { assert, describe, it } from "@effect/vitest"
import { type Entry, tally } from "../../../scripts/chaos/reconciliation.ts"

const entry = (event_id: string, attempts: number): Entry => ({
  event_id,
  status: "delivered",
  attempts,
  logged: attempts,
  numbers: attempts,
  answered: attempts
})

const arrived = (counts: Readonly<Record<string, number>>) =>
  new Map(Object.entries(counts).map(([event_id, count]) => [event_id, { count }]))

describe("tally", () => {
  it("explain a duplicate by a request of the same event that was in flight, and by no other", () => {
    const list = [entry("once", 1), entry("twice", 1), entry("retried", 2)]
    const counts = arrived({ once: 1, twice: 2, retried: 2 })
    assert.deepStrictEqual(tally(list, counts, new Map([["twice", 1]])), {
      events: 3,
      lost: 0,
      duplicates: 1,
      inFlight: 1,
      unexplained: 0,
      unexplainedEvents: [],
      stale: 0
    })
    const other = tally(list, counts, new Map([["once", 1]]))
    assert.deepStrictEqual([other.unexplained, other.unexplainedEvents], [1, ["twice"]])
    const three = arrived({ once: 1, twice: 3, retried: 2 })
    assert.strictEqual(tally(list, three, new Map([["twice", 1]])).unexplained, 1)
  })

  it("count an event as lost that never arrived, is not recorded as delivered, or has no delivery", () => {
    const list = [
      entry("silent", 0),
      { ...entry("failed", 1), status: "failed" },
      { ...entry("bare", 0), status: null }
    ]
    assert.strictEqual(tally(list, arrived({ failed: 1 }), new Map()).lost, 3)
  })

  it("count a record as not true of more attempts than arrived, or with others than its attempts", () => {
    const list = [
      entry("unseen", 2),
      { ...entry("miscounted", 1), logged: 2 },
      { ...entry("doubled", 2), numbers: 1 }
    ]
    assert.strictEqual(tally(list, arrived({ unseen: 1, miscounted: 1, doubled: 2 }), new Map()).stale, 3)
    const timedOut = { ...entry("timed out", 2), answered: 1 }
    assert.strictEqual(tally([timedOut], arrived({ "timed out": 1 }), new Map()).stale, 0)
  })
})
