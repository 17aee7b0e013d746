import { assert, describe, it } from "@effect/vitest"
import { Clock, Deferred, Effect, FiberSet, Queue } from "effect"
import type { SqlError } from "effect/sql"
import { TestClock } from "effect/testing"
import type { AttemptOutcome } from "../../../../src/domain/delivery/DeliveryState.ts"
import { DeliveryId, EventId, OrgId } from "../../../../src/domain/Ids.ts"
import { makeTimerWheel, type TimerWheel } from "../../../../src/server/concurrency/TimerWheel.ts"
import type { AttemptHeld } from "../../../../src/server/delivery/Channel.ts"
import { type Channel, defaultChannelPolicy } from "../../../../src/server/delivery/Delivery.ts"
import { makeAttempt } from "../../../../src/server/delivery/Delivery/Attempt.ts"
import { healthy } from "../../../../src/domain/delivery/Cooldown.ts"
import type { QueuedDelivery } from "../../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { Lane } from "../../../../src/server/delivery/Delivery/Lane.ts"
import { ownedShard } from "../../../support/delivery.ts"
import { suspendableClock } from "../../../support/suspendableClock.ts"

const id = "0".repeat(32)

const item: QueuedDelivery = {
  shard: 0,
  seq: 1,
  org_id: OrgId.make(`org_${id}`),
  destination_id: `nep_${id}`,
  delivery_id: `ndl_${id}`,
  event_id: EventId.make(`evt_${id}`),
  attempt: 0,
  first_attempt: 0,
  dueAt: 0,
  expiresAt: Infinity
}

/** Makes one attempt on a channel. Returns a queue with its end. */
const attempt = Effect.fnUntraced(function* (
  load: Channel["load"],
  {
    canStart = () => true,
    wheel
  }: { readonly canStart?: (now: number) => boolean; readonly wheel?: TimerWheel } = {}
) {
  const clock = yield* Clock.Clock
  const fork = yield* FiberSet.makeRuntime<never, unknown, SqlError.SqlError | AttemptHeld>()
  const ends = yield* Queue.unbounded<string>()
  const channel: Channel = {
    name: "test",
    ids: DeliveryId,
    policy: defaultChannelPolicy,
    load,
    expire: () => Effect.succeed(0)
  }
  const start = makeAttempt(
    clock,
    () => clock.currentTimeMillisUnsafe(),
    { canStart: (_: unknown, now: number) => canStart(now) },
    wheel ?? (yield* makeTimerWheel),
    fork,
    {
      finished: ({ outcome }) =>
        Queue.offerUnsafe(ends, outcome._tag === "Retry" ? outcome.error : outcome._tag),
      admit: () => true,
      admitNetwork: () => true,
      held: () => Queue.offerUnsafe(ends, "held"),
      loaded: () => {},
      started: () => {},
      requeue: () => Queue.offerUnsafe(ends, "put back")
    }
  )
  start(new Lane("key", channel, ownedShard(1), item, healthy), item)
  return ends
})

describe("Attempt", () => {
  it.effect("a delivery whose load hangs is requeued", () =>
    Effect.gen(function* () {
      const ends = yield* attempt(() => Effect.never)
      yield* TestClock.adjust("6 seconds")
      assert.strictEqual(yield* Queue.take(ends), "put back")
    }).pipe(Effect.scoped)
  )

  it.effect(
    "an attempt begins at the time at which its lease was checked, also if the process is suspended then",
    () =>
      Effect.gen(function* () {
        const { clock, suspend } = yield* suspendableClock
        const began: Array<number> = []
        const checked: Array<number> = []
        const ends = yield* attempt(
          () =>
            Effect.succeed((at) => {
              began.push(at)
              return Effect.succeed<AttemptOutcome>({ _tag: "Delivered", status: 204 })
            }),
          {
            canStart: (now) => {
              checked.push(now)
              suspend(12)
              return true
            }
          }
        ).pipe(Effect.provideService(Clock.Clock, clock))
        assert.strictEqual(yield* Queue.take(ends), "Delivered")
        assert.deepStrictEqual(began, checked)
      }).pipe(Effect.scoped)
  )

  it.effect("an attempt ends also when load or send throws or is interrupted", () =>
    Effect.gen(function* () {
      const throwing = attempt(() => {
        throw new Error("a fault of the channel")
      })
      assert.strictEqual(yield* Queue.take(yield* throwing), "put back")
      assert.strictEqual(yield* Queue.take(yield* attempt(() => Effect.interrupt)), "put back")
      const ends = yield* attempt(() => Effect.succeed(() => Effect.interrupt))
      assert.strictEqual(yield* Queue.take(ends), "internal error")
    }).pipe(Effect.scoped)
  )

  it.effect("an attempt that its channel does not end is interrupted at the deadline", () =>
    Effect.gen(function* () {
      const ends = yield* attempt(() => Effect.succeed(() => Effect.never))
      yield* TestClock.adjust("6 seconds")
      assert.strictEqual(yield* Queue.take(ends), "timed out")
    }).pipe(Effect.scoped)
  )

  it.effect("while the process stalls, a channel that ends at its deadline is not interrupted", () =>
    Effect.gen(function* () {
      const timers = new Set<() => void>()
      const wheel: TimerWheel = {
        schedule: (_millis, callback) => {
          const timer = () => {
            timers.delete(timer)
            callback()
          }
          timers.add(timer)
          return () => void timers.delete(timer)
        }
      }
      const end = yield* Deferred.make<AttemptOutcome>()
      const ends = yield* attempt(() => Effect.succeed(() => Deferred.await(end)), { wheel })
      // The channel's timer is due as well when the stall ends. Each turn that its end takes stalls again.
      for (let turn = 0; turn < 8; turn++) {
        const [overdue] = timers
        assert.isDefined(overdue)
        overdue?.()
      }
      yield* Deferred.succeed(end, { _tag: "Delivered", status: 200 })
      assert.strictEqual(yield* Queue.take(ends), "Delivered")
      assert.strictEqual(timers.size, 0)
    }).pipe(Effect.scoped)
  )
})
