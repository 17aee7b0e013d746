import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber, Queue } from "effect"
import { transaction } from "../../../../src/server/store/Database/transaction.ts"
import {
  all,
  answering,
  delivered,
  destination,
  elsewhere,
  publish,
  queued,
  quick,
  records,
  testOnStore,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

describe("Delivery, reading the queue", () => {
  testOnStore("works off more than a lane holds in memory, each delivery once", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* answering(quick(), () => delivered)
      yield* Effect.gen(function* () {
        const to = yield* destination
        const events = yield* publish(to, 700)
        yield* eventually(queued, (count) => count === 0)
        const parcels = yield* Queue.takeAll(sent)
        assert.lengthOf(parcels, 700)
        assert.sameMembers(
          parcels.map((parcel) => parcel.event_id),
          events
        )
      }).pipe(withEngine([channel]))
    })
  )

  testOnStore("finds a row at once that was written before, and committed after, one that it has read", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* answering(quick(), () => delivered)
      yield* Effect.gen(function* () {
        const early = yield* destination
        const late = yield* destination
        const written = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const slow = yield* Effect.forkChild(
          transaction(
            Effect.andThen(
              publish(early),
              Effect.andThen(Deferred.succeed(written, undefined), Deferred.await(commit))
            )
          ).pipe(elsewhere(channel))
        )
        yield* Deferred.await(written)
        yield* publish(late).pipe(elsewhere(channel))
        assert.strictEqual((yield* Queue.take(sent)).destination_id, late.destination_id)
        yield* Deferred.succeed(commit, undefined)
        assert.strictEqual((yield* Queue.take(sent)).destination_id, early.destination_id)
        yield* Fiber.join(slow)
        yield* records(early, all("delivered"))
      }).pipe(withEngine([channel], { reader: { pollMillis: 60_000, sweepMillis: 60_000 } }))
    })
  )
})
