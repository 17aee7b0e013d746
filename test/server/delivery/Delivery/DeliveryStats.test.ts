import { assert, describe } from "@effect/vitest"
import { Effect, Queue } from "effect"
import { type Channel, Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { SHARDS } from "../../../../src/server/delivery/Delivery/shardOf.ts"
import {
  delivered,
  newDestination,
  failing,
  manualChannel,
  publish,
  quickPolicy,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

describe("DeliveryStats", () => {
  testWithDatabase(
    "the statistics count waiting, overdue and in-flight deliveries and destinations in cooldown, by channel",
    () =>
      Effect.gen(function* () {
        const cooldown = { failureThreshold: 1, firstMillis: 60_000, longestMillis: 60_000 }
        const retry = { ...quickPolicy().retry, delaysMillis: [0, 0] }
        const { attempts, channel } = yield* manualChannel(quickPolicy({ concurrency: 1, cooldown, retry }))
        const other: Channel = { ...channel, name: "other" }
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const cools = yield* newDestination
          yield* publish(cools, 3, "other")
          yield* (yield* Queue.take(attempts)).complete(failing)
          const busy = yield* newDestination
          yield* publish(busy, 4)
          const attempt = yield* Queue.take(attempts)
          const figures = yield* eventually(
            delivery.stats,
            ({ channels }) =>
              (channels.get("held")?.overdueSeconds ?? 0) > 0.2 && channels.get("other")?.coolingDown === 1
          )
          assert.strictEqual(figures.shards, SHARDS)
          const { overdueSeconds, ...of } = figures.channels.get("held") ?? assert.fail("a channel")
          assert.deepStrictEqual(of, { waiting: 4, inFlight: 1, coolingDown: 0 })
          assert.isBelow(overdueSeconds, 10)
          assert.deepStrictEqual(figures.channels.get("other"), {
            waiting: 3,
            inFlight: 0,
            coolingDown: 1,
            overdueSeconds: 0
          })
          yield* attempt.complete(delivered)
          for (let i = 0; i < 3; i++) yield* (yield* Queue.take(attempts)).complete(delivered)
          yield* eventually(delivery.stats, ({ channels }) => channels.get("held")?.overdueSeconds === 0)
        }).pipe(withEngine([channel, other], { reader: { sweepMillis: 50 } }))
      })
  )
})
