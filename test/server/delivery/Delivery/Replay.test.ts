import { assert, describe } from "@effect/vitest"
import { DateTime, Deferred, Effect, Exit, Fiber, Queue } from "effect"
import { OrgId } from "../../../../src/domain/Ids.ts"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import {
  allHaveStatus,
  respondingChannel,
  delivered,
  newDestination,
  failing,
  manualChannel,
  recordId,
  singleAttempt,
  noCooldown,
  publish,
  quickPolicy,
  awaitRecords,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { waitForBlockedStatements } from "../../../support/eventually.ts"

describe("Replay", () => {
  testWithDatabase(
    "a delivery fails at the end of its schedule; a replay gets the full schedule and continues the attempt count",
    () =>
      Effect.gen(function* () {
        const { channel } = yield* respondingChannel(quickPolicy({ cooldown: noCooldown }), (_, nth) =>
          nth < 7 ? failing : delivered
        )
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const to = yield* newDestination
          const [event_id] = yield* publish(to)
          const [failed] = yield* awaitRecords(to, allHaveStatus("failed"))
          assert.strictEqual(failed?.attempts, 4)
          assert.strictEqual(failed?.last_error, "HTTP 503")
          yield* delivery.replay(to.org_id, to.destination_id, recordId(failed))
          const [record] = yield* awaitRecords(to, allHaveStatus("delivered"))
          assert.strictEqual(record?.id, failed?.id)
          assert.strictEqual(record?.event_id, event_id)
          assert.strictEqual(record?.attempts, 7)
          assert.strictEqual(record?.replays, 1)
          assert.strictEqual(record?.last_error, null)
        }).pipe(withEngine([channel]))
      })
  )

  testWithDatabase(
    "of concurrent replays of a failed delivery one succeeds, and other deliveries are refused",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(quickPolicy({ retry: singleAttempt }))
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const to = yield* newDestination
          yield* publish(to)
          yield* (yield* Queue.take(attempts)).complete(failing)
          const [record] = yield* awaitRecords(to, allHaveStatus("failed"))
          const id = recordId(record)
          const replay = Effect.exit(delivery.replay(to.org_id, to.destination_id, id))
          const exits = yield* Effect.all([replay, replay, replay], { concurrency: "unbounded" })
          assert.lengthOf(exits.filter(Exit.isSuccess), 1)
          assert.strictEqual(
            (yield* Effect.flip(delivery.replay(to.org_id, to.destination_id, id))).code,
            "NOT_REPLAYABLE"
          )
          yield* (yield* Queue.take(attempts)).complete(delivered)
          yield* awaitRecords(to, allHaveStatus("delivered"))
          const again = yield* Effect.flip(delivery.replay(to.org_id, to.destination_id, id))
          assert.strictEqual(again.code, "NOT_REPLAYABLE")
          const elsewhere = yield* Effect.flip(delivery.replay(yield* OrgId.generate, to.destination_id, id))
          assert.strictEqual(elsewhere.code, "NOT_FOUND")
          assert.strictEqual(yield* Queue.size(attempts), 0)
        }).pipe(withEngine([channel]))
      })
  )

  testWithDatabase("replays at the same time do not exceed the limit of the queue together", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* manualChannel(
        quickPolicy({ queueLimit: 1, retry: singleAttempt, cooldown: noCooldown })
      )
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        // Records have the time of the database, which is a little before or after this process's.
        const since = DateTime.subtract(yield* DateTime.now, { minutes: 1 })
        /** Replays one of two failed deliveries in a transaction that is open when the other replay begins. */
        const during = Effect.fnUntraced(function* <A, E>(
          other: (
            to: { readonly org_id: OrgId; readonly destination_id: string },
            id: string
          ) => Effect.Effect<A, E>
        ) {
          const to = yield* newDestination
          for (let count = 1; count <= 2; count++) {
            yield* publish(to)
            yield* (yield* Queue.take(attempts)).complete(failing)
            yield* awaitRecords(to, (list) => list.length === count && allHaveStatus("failed")(list))
          }
          const [first, second] = yield* delivery.list(to.org_id, to.destination_id)
          const replayed = yield* Deferred.make<void>()
          const commit = yield* Deferred.make<void>()
          const replay = yield* Effect.forkChild(
            transaction(
              delivery
                .replay(to.org_id, to.destination_id, recordId(first))
                .pipe(
                  Effect.andThen(Deferred.succeed(replayed, undefined)),
                  Effect.andThen(Deferred.await(commit))
                )
            )
          )
          yield* Deferred.await(replayed)
          const waiting = yield* Effect.forkChild(Effect.exit(other(to, recordId(second))))
          yield* Effect.raceFirst(waitForBlockedStatements(1), Fiber.await(waiting))
          yield* Deferred.succeed(commit, undefined)
          yield* Fiber.join(replay)
          yield* (yield* Queue.take(attempts)).complete(delivered)
          return yield* Effect.flatten(Fiber.join(waiting))
        })
        const refused = yield* Effect.flip(
          during((to, id) => delivery.replay(to.org_id, to.destination_id, id))
        )
        assert.include(refused, { code: "QUEUE_FULL" })
        const window = { since, until: null }
        assert.deepStrictEqual(
          yield* during((to) => delivery.replayWindow(to.org_id, to.destination_id, window)),
          { queued: 0, skipped: 1 }
        )
      }).pipe(withEngine([channel]))
    })
  )

  testWithDatabase(
    "a window's failed deliveries are replayed oldest first, up to the remaining capacity",
    () =>
      Effect.gen(function* () {
        const { channel } = yield* respondingChannel(
          quickPolicy({ queueLimit: 4, retry: singleAttempt, cooldown: noCooldown }),
          () => failing
        )
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const to = yield* newDestination
          // Records have the time of the database, which is a little before or after this process's.
          const since = DateTime.subtract(yield* DateTime.now, { minutes: 1 })
          for (let i = 0; i < 2; i++) {
            yield* publish(to, 3)
            yield* awaitRecords(to, allHaveStatus("failed"))
          }
          const later = DateTime.add(yield* DateTime.now, { minutes: 1 })
          const window = { since, until: null }
          assert.deepStrictEqual(yield* delivery.replayWindow(to.org_id, to.destination_id, window), {
            queued: 4,
            skipped: 2
          })
          const list = yield* awaitRecords(to, allHaveStatus("failed"))
          assert.deepStrictEqual(
            list.map((record) => record.replays),
            [0, 0, 1, 1, 1, 1]
          )
          assert.deepStrictEqual(
            yield* delivery.replayWindow(to.org_id, to.destination_id, { since: later, until: null }),
            { queued: 0, skipped: 0 }
          )
          assert.deepStrictEqual(
            yield* delivery.replayWindow(to.org_id, to.destination_id, { since, until: since }),
            { queued: 0, skipped: 0 }
          )
        }).pipe(withEngine([channel]))
      })
  )

  testWithDatabase(
    "of many deliveries as many are replayed as the queue has capacity for, and each has its outcome",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(
          quickPolicy({ queueLimit: 3, retry: singleAttempt, cooldown: noCooldown })
        )
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const to = yield* newDestination
          yield* publish(to, 3)
          for (const status of [delivered, failing, failing])
            yield* (yield* Queue.take(attempts)).complete(status)
          yield* awaitRecords(to, (list) => list.every(({ finished_at }) => finished_at !== null))
          yield* publish(to)
          yield* (yield* Queue.take(attempts)).complete(failing)
          const list = yield* awaitRecords(
            to,
            (records) => records.length === 4 && records.every(({ finished_at }) => finished_at !== null)
          )
          // Two that wait leave one place.
          yield* publish(to, 2)
          const ids = [...list.map(recordId), "ndl_unknown"]
          const outcomes = yield* delivery.replayMany(to.org_id, to.destination_id, ids)
          const statuses = new Map(list.map((record) => [recordId(record), record.status]))
          const failed = list
            .filter(({ status }) => status === "failed")
            .map(recordId)
            .toSorted()
          assert.deepStrictEqual(
            failed.map((id) => outcomes.get(id)),
            ["queued", "queue_full", "queue_full"]
          )
          assert.deepStrictEqual(ids.map((id) => outcomes.get(id) ?? "none").toSorted(), [
            "none",
            "not_failed",
            "queue_full",
            "queue_full",
            "queued"
          ])
          assert.strictEqual([...statuses.values()].filter((status) => status === "delivered").length, 1)
          const after = yield* delivery.list(to.org_id, to.destination_id)
          assert.deepStrictEqual(after.filter(({ replays }) => replays > 0).map(recordId), failed.slice(0, 1))
        }).pipe(withEngine([channel]))
      })
  )
})
