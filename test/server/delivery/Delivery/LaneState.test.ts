import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import fc from "fast-check"
import { type Health, healthy } from "../../../../src/domain/delivery/Cooldown.ts"
import { DeliveryId, EventId, OrgId } from "../../../../src/domain/Ids.ts"
import { defaultChannelPolicy } from "../../../../src/server/delivery/Delivery.ts"
import {
  idleLane,
  type LaneEvent,
  type LaneState,
  type LaneStep,
  MAX_NETWORK_HOLDS,
  nextStep,
  transition
} from "../../../../src/server/delivery/Delivery/LaneState.ts"
import type { QueuedDelivery } from "../../../../src/server/delivery/Delivery/QueuedDelivery.ts"

const id = "0".repeat(32)
const queued = (seq: number, dueAt: number, retry = false, expiresAt = Infinity): QueuedDelivery => ({
  shard: 0,
  seq,
  dueAt,
  expiresAt,
  org_id: OrgId.make(`org_${id}`),
  destination_id: `nep_${id}`,
  delivery_id: DeliveryId.make(`ndl_${id}`),
  event_id: EventId.make(`evt_${id}`),
  attempt: retry ? 1 : 0,
  first_attempt: 0
})

const channel = {
  name: "test",
  ids: DeliveryId,
  policy: { ...defaultChannelPolicy, concurrency: 2 },
  load: () => Effect.never,
  expire: () => Effect.succeed(0)
}

const NOW = 100
const coolingDown: Health = { _tag: "CoolingDown", failures: 5, round: 1, until: 130 }
const probing: Health = { _tag: "Probing", failures: 5, round: 1 }
const due = queued(1, NOW)
const later = queued(2, NOW + 1)
const dueRetry = queued(3, NOW, true)
const expiredRetry = queued(4, NOW - 9, true, NOW - 1)
const expiredFirst = queued(5, NOW - 9, false, NOW - 1)

const step = (
  waiting: ReadonlyArray<QueuedDelivery>,
  state: Partial<LaneState> = {},
  health: Health = healthy,
  hasRetrySlot = true
): LaneStep =>
  nextStep({ channel, health, state: { ...idleLane, ...state }, waiting: [...waiting] }, hasRetrySlot, NOW)

const start = (delivery: QueuedDelivery): LaneStep => ({ _tag: "Start", delivery })
const expire = (delivery: QueuedDelivery): LaneStep => ({ _tag: "Expire", delivery })
const awaitAttempt: LaneStep = { _tag: "AwaitAttempt" }

const steps: ReadonlyArray<readonly [name: string, actual: LaneStep, expected: LaneStep]> = [
  ["an empty lane", step([]), { _tag: "Empty" }],
  ["a due delivery", step([due, later]), start(due)],
  ["a delivery due later", step([later]), { _tag: "Park", until: later.dueAt }],
  ["a due retry", step([dueRetry]), start(dueRetry)],
  ["a retry without a slot", step([dueRetry], {}, healthy, false), { _tag: "AwaitRetrySlot" }],
  ["a first attempt behind a retry without a slot", step([dueRetry, due], {}, healthy, false), start(due)],
  [
    "a first attempt that is due later, behind such a retry",
    step([dueRetry, later], {}, healthy, false),
    { _tag: "AwaitRetrySlot" }
  ],
  ["one attempt fewer than the limit", step([due], { inFlight: 1 }), start(due)],
  ["as many attempts as the limit", step([due], { inFlight: 2 }), awaitAttempt],
  ["a cooldown", step([due], {}, coolingDown), { _tag: "Park", until: 130 }],
  ["a probe", step([due], {}, probing), start(due)],
  ["a probe in flight", step([due], { inFlight: 1 }, probing), awaitAttempt],
  ["an expired retry", step([expiredRetry, due]), expire(expiredRetry)],
  ["an expired retry in a cooldown", step([expiredRetry], {}, coolingDown), expire(expiredRetry)],
  ["an expired retry at the limit", step([expiredRetry], { inFlight: 2 }), expire(expiredRetry)],
  ["an expired first attempt to a healthy destination", step([expiredFirst]), start(expiredFirst)],
  ["an expired first attempt to a failing one", step([expiredFirst], {}, probing), expire(expiredFirst)],
  ["a retry that expires now", step([queued(6, NOW, true, NOW)]), start(queued(6, NOW, true, NOW))],
  [
    "a hold at the receiver",
    step([due], { hold: { until: 120, reserved: "both" } }),
    { _tag: "Wait", until: 120 }
  ],
  ["a hold that ends now", step([due], { hold: { until: NOW, reserved: "both" } }), start(due)],
  ["a hold at a network", step([due], { networkHeldUntil: 140 }), { _tag: "Wait", until: 140 }],
  ["a hold at a network that ends now", step([due], { networkHeldUntil: NOW }), start(due)],
  [
    "throttled, with an attempt that loads",
    step([due], { isThrottled: true, inFlight: 1, loading: 1 }),
    awaitAttempt
  ],
  ["throttled, with an attempt that was loaded", step([due], { isThrottled: true, inFlight: 1 }), start(due)],
  [
    "throttled by a network, with an attempt",
    step([due], { isNetworkThrottled: true, inFlight: 1 }),
    awaitAttempt
  ],
  ["throttled by a network, without one", step([due], { isNetworkThrottled: true }), start(due)],
  [
    "a hold, and nothing in the lane",
    step([], { hold: { until: 120, reserved: "both" } }),
    { _tag: "Wait", until: 120 }
  ]
]

describe("LaneState", () => {
  it.each(steps)("the next step of a lane with %s", (_name, actual, expected) => {
    assert.deepStrictEqual(actual, expected)
  })

  const hold = { until: 120, reserved: "organization" } as const
  const after = (...events: ReadonlyArray<LaneEvent>): LaneState => events.reduce(transition, idleLane)

  it("an attempt counts as loading until it is loaded, and as in flight until it ends", () => {
    const started = after({ _tag: "Started" })
    assert.deepStrictEqual([started.inFlight, started.loading], [1, 1])
    const loaded = transition(started, { _tag: "Loaded" })
    assert.deepStrictEqual([loaded.inFlight, loaded.loading], [1, 0])
    for (const _tag of ["Finished", "Returned"] as const)
      assert.deepStrictEqual(transition(loaded, { _tag }), idleLane)
  })

  it("a receiver's hold throttles the lane, also for the attempt that uses it, and no longer", () => {
    const held = after({ _tag: "ReceiverReserved", hold })
    assert.deepStrictEqual([held.hold, held.isThrottled], [hold, true])
    const used = transition(held, { _tag: "ReceiverReserved", hold: undefined })
    assert.deepStrictEqual([used.hold, used.isThrottled], [undefined, true])
    assert.isFalse(transition(used, { _tag: "ReceiverReserved", hold: undefined }).isThrottled)
  })

  it("a network's hold is kept for the next attempt there, and one that was used is gone", () => {
    const held = after({ _tag: "NetworkReserved", network: "a", hold })
    assert.deepStrictEqual([[...held.networkHolds], held.networkHeldUntil], [[["a", hold]], 120])
    const used = transition(held, { _tag: "NetworkReserved", network: "a", hold: undefined })
    assert.deepStrictEqual([[...used.networkHolds], used.networkHeldUntil], [[], 120])
    assert.strictEqual(transition(used, { _tag: "NetworkReserved", network: "a", hold: undefined }), used)
  })

  it("the oldest of too many networks' holds is dropped", () => {
    const networks = Array.from({ length: MAX_NETWORK_HOLDS + 1 }, (_, index) => `n${index}`)
    const held = after(...networks.map((network): LaneEvent => ({ _tag: "NetworkReserved", network, hold })))
    assert.deepStrictEqual([...held.networkHolds.keys()], networks.slice(1))
  })

  it("an attempt that a network holds back keeps its turn at the receiver, and the lane is throttled until one finishes", () => {
    const held = after({ _tag: "Started" }, { _tag: "Loaded" }, { _tag: "NetworkHeld", now: NOW })
    assert.deepStrictEqual([held.hold, held.isNetworkThrottled], [{ until: NOW, reserved: "both" }, true])
    assert.strictEqual(
      after({ _tag: "ReceiverReserved", hold }, { _tag: "NetworkHeld", now: NOW }).hold,
      hold
    )
    const returned = transition(held, { _tag: "Returned" })
    assert.isTrue(returned.isNetworkThrottled)
    assert.isFalse(
      transition(transition(returned, { _tag: "Started" }), { _tag: "Finished" }).isNetworkThrottled
    )
  })

  const deliveries = fc
    .array(fc.tuple(fc.nat({ max: 120 }), fc.boolean()), { maxLength: 40 })
    .map((list) =>
      list
        .map(([dueAt, retry], seq) => queued(seq, dueAt, retry))
        .toSorted((a, b) => a.dueAt - b.dueAt || a.seq - b.seq)
    )

  it("an idle lane starts its first due delivery, and no retry while retry slots are used up", () => {
    fc.assert(
      fc.property(deliveries, fc.boolean(), (waiting, hasRetrySlot) => {
        const expected = waiting.find((one) => one.dueAt <= NOW && (hasRetrySlot || one.attempt === 0))
        const actual = step(waiting, {}, healthy, hasRetrySlot)
        assert.strictEqual(actual._tag === "Start" ? actual.delivery : undefined, expected)
      })
    )
  })
})
