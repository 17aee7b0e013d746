import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { KeyId, OrgId, SessionId } from "../../../src/domain/Ids.ts"
import { makeDecisionWaits } from "../../../src/server/approvals/DecisionWaits.ts"

const id = (prefix: string, n: number) => `${prefix}_${String(n).padStart(32, "0")}`
const key = (n: number, org = n) => ({ org_id: OrgId.make(id("org", org)), key_id: KeyId.make(id("key", n)) })
const session = (n: number) => SessionId.make(id("ses", n))

describe("DecisionWaits", () => {
  it.effect("wake by a signal of their session, by a lost signal, and by time", () =>
    Effect.gen(function* () {
      const waits = makeDecisionWaits({ total: 10, perOrganization: 10 }, () => {})
      const start = (n: number) =>
        Effect.forkChild(waits.next(key(n), session(n), 1_000), { startImmediately: true })
      const [first, second, third] = [yield* start(1), yield* start(2), yield* start(3)]
      assert.strictEqual(waits.size(), 3)
      waits.signal([{ session_id: session(1), newest: 7 }])
      assert.strictEqual(yield* Fiber.join(first), "changed")
      assert.strictEqual(waits.size(), 2)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(second), "changed")
      assert.strictEqual(yield* Fiber.join(third), "changed")
      const last = yield* start(4)
      waits.signal(undefined)
      assert.strictEqual(yield* Fiber.join(last), "changed")
      assert.strictEqual(waits.size(), 0)
    })
  )

  it.effect("are limited for an organization and for the replica", () =>
    Effect.gen(function* () {
      const waits = makeDecisionWaits({ total: 3, perOrganization: 2 }, () => {})
      const start = (n: number, org: number) =>
        Effect.forkChild(waits.next(key(n, org), session(n), 1_000), { startImmediately: true })
      const first = yield* start(1, 1)
      yield* start(2, 1)
      assert.strictEqual(yield* Fiber.join(yield* start(3, 1)), "full")
      yield* start(4, 2)
      assert.strictEqual(yield* Fiber.join(yield* start(5, 2)), "full")
      // An interrupted wait leaves its place.
      yield* Fiber.interrupt(first)
      assert.strictEqual(waits.size(), 2)
      const next = yield* start(6, 2)
      assert.strictEqual(waits.size(), 3)
      yield* Fiber.interrupt(next)
    })
  )

  it.effect("end with their key, and when the service stops", () =>
    Effect.gen(function* () {
      const waits = makeDecisionWaits({ total: 10, perOrganization: 10 }, () => {})
      const start = (n: number) =>
        Effect.forkChild(waits.next(key(n), session(n), 1_000), { startImmediately: true })
      const [first, second] = [yield* start(1), yield* start(2)]
      assert.deepStrictEqual(waits.keysInUse(), [key(1), key(2)])
      waits.endKeys(new Set([key(1).key_id]))
      assert.strictEqual(yield* Fiber.join(first), "ended")
      waits.endAll()
      assert.strictEqual(yield* Fiber.join(second), "ended")
      assert.strictEqual(yield* Fiber.join(yield* start(3)), "ended")
    })
  )
})
