import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
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

/** Keeps an event for an endpoint that takes it only if asked to. Returns a weak reference to its body. */
const keepUntaken = Effect.gen(function* () {
  const recent = yield* RecentEvents
  const body = new TextEncoder().encode("{}")
  recent.keep({ event_id: yield* EventId.generate, type: "test", body }, [
    { endpoint_id: yield* EndpointId.generate, version: "7" }
  ])
  return new WeakRef(body)
})

/** Runs a full garbage collection. */
const collectGarbage = Effect.promise(async () => {
  // A target of a WeakRef that was dereferenced or created in this tick stays alive until the tick ends.
  await new Promise(setImmediate)
  setFlagsFromString("--expose-gc")
  runInNewContext("gc")()
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

  it.effect(
    "memory of events that no attempt takes, as of an endpoint in cooldown, is released after a quarter of a second",
    () =>
      Effect.gen(function* () {
        const early = yield* keepUntaken
        yield* TestClock.adjust("251 millis")
        const late = yield* keepUntaken
        yield* collectGarbage
        assert.isUndefined(early.deref())
        assert.isDefined(late.deref())
      }).pipe(Effect.provide(RecentEvents.layer))
  )
})
