import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber, Queue } from "effect"
import { transaction } from "../../../../src/server/store/transaction.ts"
import {
  allHaveStatus,
  respondingChannel,
  delivered,
  newDestination,
  withoutEngineFor,
  publish,
  queueLength,
  quickPolicy,
  awaitRecords,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

describe("Reader", () => {
  testWithDatabase("a queue longer than a lane holds in memory is sent completely, each delivery once", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* respondingChannel(quickPolicy(), () => delivered)
      yield* Effect.gen(function* () {
        const to = yield* newDestination
        const events = yield* publish(to, 700)
        yield* eventually(queueLength, (count) => count === 0)
        const refs = yield* Queue.takeAll(sent)
        assert.lengthOf(refs, 700)
        assert.sameMembers(
          refs.map((ref) => ref.event_id),
          events
        )
      }).pipe(withEngine([channel]))
    })
  )

  testWithDatabase(
    "a row inserted before and committed after a row that was read is found without a sweep",
    () =>
      Effect.gen(function* () {
        const { channel, sent } = yield* respondingChannel(quickPolicy(), () => delivered)
        yield* Effect.gen(function* () {
          const early = yield* newDestination
          const late = yield* newDestination
          const written = yield* Deferred.make<void>()
          const commit = yield* Deferred.make<void>()
          const slow = yield* Effect.forkChild(
            transaction(
              Effect.andThen(
                publish(early),
                Effect.andThen(Deferred.succeed(written, undefined), Deferred.await(commit))
              )
            ).pipe(withoutEngineFor(channel))
          )
          yield* Deferred.await(written)
          yield* publish(late).pipe(withoutEngineFor(channel))
          assert.strictEqual((yield* Queue.take(sent)).destination_id, late.destination_id)
          yield* Deferred.succeed(commit, undefined)
          assert.strictEqual((yield* Queue.take(sent)).destination_id, early.destination_id)
          yield* Fiber.join(slow)
          yield* awaitRecords(early, allHaveStatus("delivered"))
        }).pipe(withEngine([channel], { reader: { pollMillis: 60_000, sweepMillis: 60_000 } }))
      })
  )
})
