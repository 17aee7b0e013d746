import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { EndpointId, EventId, OrgId } from "../../../../src/domain/Ids.ts"
import { RecentEvents } from "../../../../src/server/notifications/Notifications/RecentEvents.ts"

const setUp = Effect.gen(function* () {
  const recent = yield* RecentEvents
  const event_id = yield* EventId.generate
  const org_id = yield* OrgId.generate
  const [one, other] = [yield* EndpointId.generate, yield* EndpointId.generate]
  const body = Buffer.from("{}")
  recent.keep({ event_id, type: "test", body }, [
    { endpoint_id: one, version: "7" },
    { endpoint_id: other, version: "8" }
  ])
  const take = (destination_id: string) =>
    recent.take({ org_id, destination_id, event_id, delivery_id: "ndl" })?.version
  return { one, other, take, absent: yield* EndpointId.generate }
})

describe("RecentEvents", () => {
  it.effect("an event is handed over once for each endpoint that it was kept for", () =>
    Effect.gen(function* () {
      const { absent, one, other, take } = yield* setUp
      assert.deepStrictEqual([one, one, other, other, absent].map(take), [
        "7",
        undefined,
        "8",
        undefined,
        undefined
      ])
    }).pipe(Effect.provide(RecentEvents.layer))
  )

  it.effect("an event is handed over for a quarter of a second only", () =>
    Effect.gen(function* () {
      const { one, other, take } = yield* setUp
      yield* TestClock.adjust("250 millis")
      assert.strictEqual(take(one), "7")
      yield* TestClock.adjust("1 millis")
      assert.isUndefined(take(other))
    }).pipe(Effect.provide(RecentEvents.layer))
  )
})
