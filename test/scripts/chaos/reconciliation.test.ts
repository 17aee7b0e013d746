import { assert, describe, it } from "@effect/vitest"
import { type Entry, requestAtFreeze, tally } from "../../../scripts/chaos/reconciliation.ts"

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

describe("requestAtFreeze", () => {
  const freeze = { address: "127.1.0.2", frozenAt: 5_000, frozenAtUnix: 100_500, resumedAt: 17_000 }
  const request = (at: number, signedAt: number, by = freeze.address) => ({ at, by, signedAt })
  const find = (requests: Readonly<Record<string, ReadonlyArray<ReturnType<typeof request>>>>) =>
    requestAtFreeze(new Map(Object.entries(requests).map(([id, list]) => [id, { requests: list }])), freeze)

  it("finds the one request that was signed before the freeze and written after it", () => {
    assert.strictEqual(find({ before: [request(4_999, 100)], late: [request(17_001, 100)] }), "late")
    assert.strictEqual(find({ later: [request(17_002, 100)], first: [request(17_001, 99)] }), "first")
  })

  it("finds none that was signed after the freeze, or that another replica sent", () => {
    assert.isUndefined(find({ new: [request(17_001, 112)], other: [request(17_001, 100, "127.1.0.3")] }))
    assert.isUndefined(find({ before: [request(4_999, 100)] }))
  })
})
