import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Queue } from "effect"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { TestClock } from "effect/testing"
import { healthy } from "../../../../src/domain/delivery/Cooldown.ts"
import type { AttemptOutcome } from "../../../../src/domain/delivery/DeliveryState.ts"
import { OrgId } from "../../../../src/domain/Ids.ts"
import { AttemptHeld } from "../../../../src/server/delivery/Channel.ts"
import type { Channel } from "../../../../src/server/delivery/Delivery.ts"
import type { AttemptResult } from "../../../../src/server/delivery/Delivery/Attempt.ts"
import { FULL_BATCH } from "../../../../src/server/delivery/Delivery/Dispatcher.ts"
import {
  delivered,
  failing,
  type ManualAttempt,
  manualChannel,
  queueRow,
  quickPolicy,
  startDispatcher
} from "../../../support/delivery.ts"

describe("Dispatcher", () => {
  // Seven of them: with so many, waking a few at a time and sending the losers to the end always woke the same ones first.
  it.effect("destinations that wait for a slot of their organization take turns", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy({ concurrency: 100 }))
      const { dispatcher } = yield* startDispatcher(channel, { organizationSlots: 2 })
      const rows = Array.from({ length: 7 * 40 }, (_, index) =>
        queueRow({ seq: index + 1, destination_id: `nep_${index % 7}` })
      )
      dispatcher.offer(rows, 0, 0)
      const turns = new Map<string, number>()
      for (let i = 0; i < 7 * 20; i++) {
        const { complete, delivery } = yield* Queue.take(attempts)
        turns.set(delivery.destination_id, (turns.get(delivery.destination_id) ?? 0) + 1)
        yield* complete(delivered)
      }
      assert.deepStrictEqual(
        [...turns.values()],
        Array.from({ length: 7 }, () => 20)
      )
    }).pipe(Effect.scoped)
  )

  it.effect("lanes read before a shard was lost and regained send nothing", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy({ concurrency: 1 }))
      const { dispatcher, regain } = yield* startDispatcher(channel)
      dispatcher.offer([queueRow({ seq: 1 }), queueRow({ seq: 2 })], 0, 0)
      const first = yield* Queue.take(attempts)
      regain()
      yield* first.complete(failing)
      yield* Queue.take(dispatcher.results)
      dispatcher.wakeAll()
      yield* Effect.yieldNow
      assert.strictEqual(yield* Queue.size(attempts), 0)
      dispatcher.offer([queueRow({ seq: 3 })], 0, 0)
      assert.strictEqual((yield* Queue.take(attempts)).delivery.event_id, queueRow({ seq: 3 }).event_id)
    }).pipe(Effect.scoped)
  )

  it.effect("a delivery loaded while its shard was lost and regained is not sent", () =>
    Effect.gen(function* () {
      const store = yield* Deferred.make<void>()
      const reading = yield* Queue.unbounded<void>()
      const sent = yield* Queue.unbounded<string>()
      const channel: Channel = {
        ...(yield* manualChannel(quickPolicy())).channel,
        load: ({ event_id }) =>
          Effect.as(Effect.andThen(Queue.offer(reading, undefined), Deferred.await(store)), () =>
            Effect.as(Queue.offer(sent, event_id), delivered)
          )
      }
      const { dispatcher, regain } = yield* startDispatcher(channel)
      dispatcher.offer([queueRow({ seq: 1 })], 0, 0)
      yield* Queue.take(reading)
      regain()
      dispatcher.dropLostLanes()
      yield* Deferred.succeed(store, undefined)
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      dispatcher.offer([queueRow({ seq: 2 })], 0, 0)
      assert.strictEqual(yield* Queue.take(sent), queueRow({ seq: 2 }).event_id)
    }).pipe(Effect.scoped)
  )

  it.effect("an attempt that ends after its shard was lost does not change the destination's health", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const { dispatcher, regain } = yield* startDispatcher(channel)
      dispatcher.offer([queueRow({ seq: 1 }), queueRow({ seq: 2 })], 0, 0)
      yield* (yield* Queue.take(attempts)).complete(failing)
      yield* Queue.take(dispatcher.results)
      assert.strictEqual(dispatcher.unsavedHealth(10).size, 1)
      const late = yield* Queue.take(attempts)
      regain()
      dispatcher.dropLostLanes()
      yield* late.complete(failing)
      yield* Queue.take(dispatcher.results)
      assert.strictEqual(dispatcher.unsavedHealth(10).size, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("a failing destination without cooldown is probed one attempt at a time until one succeeds", () =>
    Effect.gen(function* () {
      const cooldown = { failureThreshold: 3, firstMillis: 0, longestMillis: 0 }
      const { attempts, channel } = yield* manualChannel(quickPolicy({ concurrency: 4, cooldown }))
      const { dispatcher } = yield* startDispatcher(channel)
      dispatcher.offer(
        Array.from({ length: 20 }, (_, index) => queueRow({ seq: index + 1 })),
        0,
        0
      )
      const endedThen = Effect.fnUntraced(function* (attempt: ManualAttempt, outcome: AttemptOutcome) {
        yield* attempt.complete(outcome)
        yield* Queue.take(dispatcher.results)
        return yield* Queue.size(attempts)
      })
      const first = yield* Queue.takeN(attempts, 4)
      const after: Array<number> = []
      for (const attempt of first) after.push(yield* endedThen(attempt, failing))
      // Two slots are filled again; from the third failure on none is while another attempt is in flight.
      assert.deepStrictEqual(after, [1, 2, 2, 2])
      for (const attempt of yield* Queue.takeN(attempts, 2)) yield* endedThen(attempt, failing)
      for (let probe = 0; probe < 3; probe++) {
        assert.strictEqual(yield* Queue.size(attempts), 1)
        yield* endedThen(yield* Queue.take(attempts), failing)
      }
      assert.strictEqual(yield* endedThen(yield* Queue.take(attempts), delivered), 4)
    }).pipe(Effect.scoped)
  )

  it.effect(
    "overdue deliveries to a failing destination expire without an attempt, and new ones are sent",
    () =>
      Effect.gen(function* () {
        const cooldown = { failureThreshold: 1, firstMillis: 0, longestMillis: 0 }
        const { attempts, channel } = yield* manualChannel(quickPolicy({ concurrency: 1, cooldown }))
        const { dispatcher } = yield* startDispatcher(channel)
        dispatcher.offer(
          [1, 2, 3, 4].map((seq) => queueRow({ seq, left_ms: 1_000 })),
          0,
          0
        )
        const endOne = Effect.fnUntraced(function* (outcome: AttemptOutcome) {
          yield* (yield* Queue.take(attempts)).complete(outcome)
          return yield* Queue.take(dispatcher.results)
        })
        yield* endOne(failing)
        yield* TestClock.adjust("2 seconds")
        dispatcher.offer([queueRow({ seq: 5, left_ms: 1_000 })], 2_000, 2_000)
        const ended = yield* Queue.takeN(dispatcher.results, 2)
        assert.deepStrictEqual(
          ended.map(({ delivery, outcome }) => [delivery.seq, outcome._tag]),
          [
            [3, "Refused"],
            [4, "Refused"]
          ]
        )
        assert.strictEqual((yield* endOne(delivered)).delivery.seq, 2)
        // Expired deliveries do not count for the destination: it had one failure, then one success.
        assert.strictEqual((yield* endOne(delivered)).delivery.seq, 5)
        assert.deepStrictEqual([...dispatcher.unsavedHealth(10).values()], [healthy])
      }).pipe(Effect.scoped)
  )

  it.effect("an overdue first attempt to a healthy destination is made, an overdue retry is not", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const { dispatcher } = yield* startDispatcher(channel)
      dispatcher.offer(
        [queueRow({ seq: 1, attempt: 1, left_ms: -1 }), queueRow({ seq: 2, left_ms: -1 })],
        0,
        0
      )
      assert.strictEqual((yield* Queue.take(dispatcher.results)).delivery.seq, 1)
      assert.strictEqual((yield* Queue.take(attempts)).delivery.event_id, queueRow({ seq: 2 }).event_id)
    }).pipe(Effect.scoped)
  )

  it.effect("the rows behind the first one of a destination in cooldown are read when it is probed", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const { dispatcher } = yield* startDispatcher(channel)
      const row = queueRow({ consecutive_failures: 5, cooldown_round: 1, cooldown_ms: 5_000 })
      dispatcher.offerHeads([row], 0, 0, false)
      assert.lengthOf(dispatcher.takeLowLanes(1), 0)
      yield* TestClock.adjust("5 seconds")
      yield* Queue.take(attempts)
      assert.deepStrictEqual(
        dispatcher.takeLowLanes(1).map(({ destination_id }) => destination_id),
        [row.destination_id]
      )
    }).pipe(Effect.scoped)
  )

  it.effect(
    "rows that the tail can have missed behind one that is being sent, or was just recorded, are read",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(quickPolicy())
        const { dispatcher } = yield* startDispatcher(channel)
        const row = queueRow({ seq: 1 })
        dispatcher.offer([row], 0, 0)
        const { complete } = yield* Queue.take(attempts)
        assert.isFalse(dispatcher.offerHeads([row], 0, 0, false))
        assert.lengthOf(dispatcher.takeLowLanes(1), 0)
        assert.isFalse(dispatcher.offerHeads([row], 0, 0, true))
        const [lane] = dispatcher.takeLowLanes(1)
        assert.strictEqual(lane?.destination_id, row.destination_id)
        dispatcher.refill(new Map(lane === undefined ? [] : [[lane, { rows: [row], complete: true }]]), 0)
        // A sweep that began before the attempt was recorded.
        const endRead = dispatcher.beginRead()
        yield* complete(delivered)
        const result = yield* Queue.take(dispatcher.results)
        dispatcher.acknowledge([{ result, retryAt: null }])
        assert.isTrue(dispatcher.offerHeads([row], 0, 0, true))
        assert.isFalse(dispatcher.offerHeads([row], 0, 0, false))
        endRead()
      }).pipe(Effect.scoped)
  )

  it.effect("results are worth recording at once when a full batch waits, until it is taken", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy({ concurrency: FULL_BATCH }))
      const { dispatcher } = yield* startDispatcher(channel)
      const waiting = yield* Effect.forkChild(dispatcher.hasFullBatch.await)
      dispatcher.offer(
        Array.from({ length: FULL_BATCH }, (_, index) => queueRow({ seq: index + 1 })),
        0,
        0
      )
      const others = yield* Queue.takeN(attempts, FULL_BATCH - 1)
      const last = yield* Queue.take(attempts)
      for (const one of others) yield* one.complete(delivered)
      yield* Effect.yieldNow
      assert.isUndefined(waiting.pollUnsafe())
      yield* last.complete(delivered)
      yield* Fiber.join(waiting)
      assert.lengthOf(yield* dispatcher.takeResults(FULL_BATCH), FULL_BATCH)
      const next = yield* Effect.forkChild(dispatcher.hasFullBatch.await)
      yield* Effect.yieldNow
      assert.isUndefined(next.pollUnsafe())
    }).pipe(Effect.scoped)
  )

  it.effect("a delivery whose load failed after its lane was dropped is accepted again", () =>
    Effect.gen(function* () {
      const store = yield* Deferred.make<never, SqlError>()
      const reading = yield* Queue.unbounded<void>()
      const channel: Channel = {
        ...(yield* manualChannel(quickPolicy())).channel,
        load: () => Effect.andThen(Queue.offer(reading, undefined), Deferred.await(store))
      }
      const { dispatcher, regain } = yield* startDispatcher(channel)
      dispatcher.offer([queueRow({ seq: 1 })], 0, 0)
      yield* Queue.take(reading)
      regain()
      dispatcher.dropLostLanes()
      yield* Deferred.fail(store, new SqlError({ reason: new ConnectionError({ cause: "away" }) }))
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      dispatcher.offer([queueRow({ seq: 1 })], 0, 0)
      yield* Queue.take(reading)
    }).pipe(Effect.scoped)
  )

  it.effect(
    "destinations of one receiver take turns within its rate, in order, and hold up no other receiver",
    () =>
      Effect.gen(function* () {
        const policy = quickPolicy({ receiverRates: { perOrganization: 4, total: 0 } })
        const sent: Array<string> = []
        const channel: Channel = {
          ...(yield* manualChannel(policy)).channel,
          receiverOf: ({ destination_id }) => (destination_id === "other" ? "free.example" : "busy.example"),
          load: ({ destination_id, event_id }) =>
            Effect.succeed(() =>
              Effect.sync(() => {
                sent.push(`${destination_id} ${Number(event_id.slice(-3))}`)
                return delivered
              })
            )
        }
        const { dispatcher } = yield* startDispatcher(channel)
        yield* Effect.forkChild(Effect.forever(dispatcher.takeResults(64)))
        const rows = (destination_id: string, first: number, count: number) =>
          Array.from({ length: count }, (_, index) => queueRow({ seq: first + index, destination_id }))
        dispatcher.offer([...rows("a", 100, 6), ...rows("b", 200, 6)], 0, 0)
        yield* TestClock.adjust("1 millis")
        assert.lengthOf(sent, 4)
        dispatcher.offer(rows("other", 300, 3), 1, 1)
        yield* TestClock.adjust("1 millis")
        assert.deepStrictEqual(sent.slice(4), ["other 300", "other 301", "other 302"])

        // Four a second, and each destination's in the order of its queue.
        yield* TestClock.adjust("1 seconds")
        assert.lengthOf(sent, 4 + 3 + 4)
        yield* TestClock.adjust("1 seconds")
        assert.lengthOf(sent, 12 + 3)
        const byDestination = Map.groupBy(sent, (one) => one.split(" ")[0])
        for (const list of byDestination.values()) assert.deepStrictEqual(list, list.toSorted())
        const turns = sent.slice(7).map((one) => one.split(" ")[0])
        assert.deepStrictEqual(new Set(turns.slice(0, 2)), new Set(["a", "b"]))
      }).pipe(Effect.scoped)
  )

  it.effect("hosts in one network take turns within its rates, in order, and hold up no other network", () =>
    Effect.gen(function* () {
      const policy = quickPolicy({
        receiverRates: { perOrganization: 100, total: 100 },
        networkRates: { perOrganization: 0, total: 4 }
      })
      const sent: Array<string> = []
      const channel: Channel = {
        ...(yield* manualChannel(policy)).channel,
        receiverOf: ({ destination_id }) => `${destination_id}.victim.example`,
        load: ({ destination_id, event_id }, admit) =>
          Effect.succeed(() =>
            Effect.suspend(() => {
              if (!admit(destination_id === "other" ? "2.2.2.0/24" : "1.1.1.0/24"))
                return Effect.fail(new AttemptHeld())
              sent.push(`${destination_id} ${Number(event_id.slice(-3))}`)
              return Effect.succeed(delivered)
            })
          )
      }
      const { dispatcher } = yield* startDispatcher(channel)
      const results: Array<AttemptResult> = []
      yield* dispatcher.takeResults(64).pipe(
        Effect.tap((list) => Effect.sync(() => results.push(...list))),
        Effect.forever,
        Effect.forkChild
      )
      const rows = (destination_id: string, first: number, count: number) =>
        Array.from({ length: count }, (_, index) => queueRow({ seq: first + index, destination_id }))
      dispatcher.offer([...rows("a", 100, 6), ...rows("b", 200, 6)], 0, 0)
      yield* TestClock.adjust("1 millis")
      assert.lengthOf(sent, 4)
      dispatcher.offer(rows("other", 300, 3), 1, 1)
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(sent.slice(4), ["other 300", "other 301", "other 302"])
      yield* TestClock.adjust("1 seconds")
      assert.lengthOf(sent, 4 + 3 + 4)
      yield* TestClock.adjust("1 seconds")
      assert.lengthOf(sent, 12 + 3)
      for (const list of Map.groupBy(sent, (one) => one.split(" ")[0]).values())
        assert.deepStrictEqual(list, list.toSorted())
      // A delivery that was held back is neither an attempt nor a failure.
      assert.lengthOf(results, 15)
      assert.isTrue(results.every(({ outcome }) => outcome._tag === "Delivered"))
    }).pipe(Effect.scoped)
  )

  it.effect(
    "attempts of one destination that were loaded at the same time keep to the rate of their network",
    () =>
      Effect.gen(function* () {
        const policy = quickPolicy({ networkRates: { perOrganization: 0, total: 4 } })
        let sent = 0
        const channel: Channel = {
          ...(yield* manualChannel(policy)).channel,
          load: (_, admit) =>
            Effect.as(Effect.sleep("5 millis"), () =>
              Effect.suspend(() => {
                if (!admit("1.1.1.0/24")) return Effect.fail(new AttemptHeld())
                sent++
                return Effect.succeed(delivered)
              })
            )
        }
        const { dispatcher } = yield* startDispatcher(channel)
        yield* Effect.forkChild(Effect.forever(dispatcher.takeResults(64)))
        dispatcher.offer(
          Array.from({ length: 8 }, (_, index) => queueRow({ seq: index + 1 })),
          0,
          0
        )
        yield* TestClock.adjust("10 millis")
        assert.strictEqual(sent, 4)
        for (let step = 0; step < 25; step++) yield* TestClock.adjust("50 millis")
        assert.strictEqual(sent, 8)
      }).pipe(Effect.scoped)
  )

  it.effect(
    "a receiver with two addresses gets its turn if the first is dead and both networks are busy",
    () =>
      Effect.gen(function* () {
        const policy = quickPolicy({ networkRates: { perOrganization: 0, total: 4 } })
        const sent: Array<string> = []
        const networksOf = (destination: string): ReadonlyArray<string> =>
          destination === "dual" ? ["1.1.1.0/24", "2.2.2.0/24"] : [destination]
        const channel: Channel = {
          ...(yield* manualChannel(policy)).channel,
          load: ({ destination_id }, admit) =>
            Effect.succeed(() =>
              Effect.suspend(() => {
                // Each address is dialled only if the one before it did not answer.
                if (!networksOf(destination_id).every(admit)) return Effect.fail(new AttemptHeld())
                sent.push(destination_id)
                return Effect.succeed(delivered)
              })
            )
        }
        const { dispatcher } = yield* startDispatcher(channel)
        yield* Effect.forkChild(Effect.forever(dispatcher.takeResults(64)))
        const rows = (destination_id: string, first: number, count: number) =>
          Array.from({ length: count }, (_, index) => queueRow({ seq: first + index, destination_id }))
        dispatcher.offer([...rows("1.1.1.0/24", 100, 60), ...rows("2.2.2.0/24", 200, 60)], 0, 0)
        yield* TestClock.adjust("1 millis")
        dispatcher.offer(rows("dual", 300, 3), 1, 1)
        for (let step = 0; step < 100; step++) yield* TestClock.adjust("50 millis")
        assert.strictEqual(sent.filter((one) => one === "dual").length, 3)
      }).pipe(Effect.scoped)
  )

  it.effect(
    "while a lease is too short for an attempt nothing is loaded, and all is sent once it is renewed",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(quickPolicy())
        let loads = 0
        const { dispatcher, lease } = yield* startDispatcher({
          ...channel,
          load: (ref, admit) => {
            loads++
            return channel.load(ref, admit)
          }
        })
        lease.isShort = true
        dispatcher.offer([queueRow()], 0, 0)
        yield* TestClock.adjust("1 millis")
        assert.strictEqual(loads, 0)
        lease.isShort = false
        dispatcher.wakeAll()
        yield* TestClock.adjust("1 millis")
        assert.strictEqual(yield* Queue.size(attempts), 1)
      }).pipe(Effect.scoped)
  )

  it.effect("a delivery that is due before the one its destination waits for is sent at its time", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const { dispatcher } = yield* startDispatcher(channel)
      dispatcher.offer([queueRow({ seq: 1, wait_ms: 8_000 })], 0, 0)
      dispatcher.offer([queueRow({ seq: 2, wait_ms: 2_000 })], 0, 0)
      yield* TestClock.adjust("1990 millis")
      assert.strictEqual(yield* Queue.size(attempts), 0)
      yield* TestClock.adjust("20 millis")
      assert.strictEqual(yield* Queue.size(attempts), 1)
      yield* TestClock.adjust("6 seconds")
      assert.strictEqual(yield* Queue.size(attempts), 2)
    }).pipe(Effect.scoped)
  )

  it.effect("a row that was read before its attempt was recorded is not sent again", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const { dispatcher } = yield* startDispatcher(channel)
      dispatcher.offer([queueRow()], 0, 0)
      const end = dispatcher.beginRead()
      yield* (yield* Queue.take(attempts)).complete(delivered)
      dispatcher.acknowledge([{ result: yield* Queue.take(dispatcher.results), retryAt: null }])
      dispatcher.offer([queueRow()], 0, 0)
      end()
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* Queue.size(attempts), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("a failed delivery is accepted again if its shard was lost before the failure was recorded", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(quickPolicy())
      const { dispatcher, regain } = yield* startDispatcher(channel)
      dispatcher.offer([queueRow()], 0, 0)
      yield* (yield* Queue.take(attempts)).complete(failing)
      const result = yield* Queue.take(dispatcher.results)
      regain()
      dispatcher.dropLostLanes()
      dispatcher.acknowledge([{ result, retryAt: 0 }])
      dispatcher.offer([queueRow({ attempt: 1 })], 0, 0)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* Queue.size(attempts), 1)
    }).pipe(Effect.scoped)
  )

  const retry = { attempt: 1 }
  const another = { org_id: OrgId.make(`org_${"1".repeat(32)}`) }
  for (const [limit, change, first, second] of [
    ["its organization", { slots: { organizationSlots: 1 } }, {}, {}],
    ["its channel", { policy: { slots: 1 } }, {}, another],
    ["retries", { slots: { retrySlots: 1 } }, retry, { ...retry, ...another }]
  ] as const) {
    it.effect(`a destination that waits for a slot of ${limit} sends as soon as one is free`, () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(
          quickPolicy("policy" in change ? change.policy : {})
        )
        const { dispatcher } = yield* startDispatcher(channel, "slots" in change ? change.slots : {})
        dispatcher.offer(
          [queueRow({ ...first, destination_id: "a" }), queueRow({ ...second, seq: 2, destination_id: "b" })],
          0,
          0
        )
        yield* TestClock.adjust("1 millis")
        const running = yield* Queue.clear(attempts)
        assert.deepStrictEqual(
          running.map(({ delivery }) => delivery.destination_id),
          ["a"]
        )
        for (const attempt of running) yield* attempt.complete(delivered)
        yield* TestClock.adjust("1 millis")
        assert.strictEqual(yield* Queue.size(attempts), 1)
      }).pipe(Effect.scoped)
    )
  }

  it.effect(
    "destinations whose deliveries expired while they waited for a slot leave it to one behind them",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(quickPolicy())
        const { dispatcher } = yield* startDispatcher(channel, { organizationSlots: 1 })
        const waiting = ["b", "c", "d", "e"].map((destination_id, index) =>
          queueRow({ seq: index + 2, destination_id, attempt: 1, left_ms: 1_000 })
        )
        const last = queueRow({ seq: 6, destination_id: "f" })
        dispatcher.offer([queueRow({ destination_id: "a" }), ...waiting, last], 0, 0)
        const running = yield* Queue.take(attempts)
        yield* TestClock.adjust("2 seconds")
        yield* running.complete(delivered)
        yield* TestClock.adjust("1 millis")
        assert.deepStrictEqual(
          Array.from(yield* Queue.clear(attempts), ({ delivery }) => delivery.destination_id),
          ["f"]
        )
        const results = yield* Queue.takeAll(dispatcher.results)
        assert.sameMembers(
          results.flatMap(({ lane, outcome }) => (outcome._tag === "Refused" ? [lane.destination_id] : [])),
          ["b", "c", "d", "e"]
        )
      }).pipe(Effect.scoped)
  )
})
