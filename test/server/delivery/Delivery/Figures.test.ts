import { assert, describe } from "@effect/vitest"
import { Effect, Queue } from "effect"
import { type Channel, Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { SHARDS } from "../../../../src/server/delivery/Delivery/Shards.ts"
import {
  delivered,
  destination,
  failing,
  heldChannel,
  publish,
  quick,
  testOnStore,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

describe("Delivery, its figures", () => {
  testOnStore("knows how it fares: what waits, what is overdue, what is under way, who cools down", () =>
    Effect.gen(function* () {
      const cooldown = { failureThreshold: 1, firstMillis: 60_000, longestMillis: 60_000 }
      const retry = { ...quick().retry, delaysMillis: [0, 0] }
      const { attempts, channel } = yield* heldChannel(quick({ concurrency: 1, cooldown, retry }))
      const other: Channel = { ...channel, name: "other" }
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const cools = yield* destination
        yield* publish(cools, 3, "other")
        yield* (yield* Queue.take(attempts)).end(failing)
        const busy = yield* destination
        yield* publish(busy, 4)
        const held = yield* Queue.take(attempts)
        const figures = yield* eventually(
          delivery.figures,
          ({ channels }) =>
            (channels.get("held")?.overdueSeconds ?? 0) > 0.2 && channels.get("other")?.cooling === 1
        )
        assert.strictEqual(figures.shards, SHARDS)
        const { overdueSeconds, ...of } = figures.channels.get("held") ?? assert.fail("a channel")
        assert.deepStrictEqual(of, { waiting: 4, inFlight: 1, cooling: 0 })
        assert.isBelow(overdueSeconds, 10)
        assert.deepStrictEqual(figures.channels.get("other"), {
          waiting: 3,
          inFlight: 0,
          cooling: 1,
          overdueSeconds: 0
        })
        yield* held.end(delivered)
        for (let i = 0; i < 3; i++) yield* (yield* Queue.take(attempts)).end(delivered)
        yield* eventually(delivery.figures, ({ channels }) => channels.get("held")?.overdueSeconds === 0)
      }).pipe(withEngine([channel, other], { reader: { sweepMillis: 50 } }))
    })
  )
})
