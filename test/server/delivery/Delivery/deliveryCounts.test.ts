import { assert, describe } from "@effect/vitest"
import { Effect, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { type Counts, readCounts, recount } from "../../../support/counts.ts"
import {
  ageAllDeliveries,
  delivered,
  failing,
  manualChannel,
  newDestination,
  publish,
  queueLength,
  quickPolicy,
  singleAttempt,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

describe("deliveryCounts", () => {
  testWithDatabase(
    "a delivery counts once, by its last result: after a failure, a replay, a full queue and the removal of its destination",
    () =>
      Effect.gen(function* () {
        const { attempts, channel } = yield* manualChannel(
          quickPolicy({ queueLimit: 4, retry: singleAttempt })
        )
        yield* Effect.gen(function* () {
          const delivery = yield* Delivery
          const to = yield* newDestination
          const { destination_id, org_id } = to
          const counts = Effect.map(readCounts(org_id), (counts: Counts) => {
            const of = (column: string) =>
              Object.entries(counts)
                .filter(([key]) => key.endsWith(` ${column}`))
                .reduce((total, [, count]) => total + count, 0)
            return [of("delivered"), of("failed")]
          })
          const complete = (outcome: typeof delivered, left: number) =>
            Queue.take(attempts).pipe(
              Effect.flatMap((attempt) => attempt.complete(outcome)),
              Effect.andThen(eventually(queueLength, (length) => length === left))
            )
          yield* publish(to, 3)
          assert.deepStrictEqual(yield* counts, [0, 0])
          yield* complete(delivered, 2)
          yield* complete({ _tag: "Partial", error: "1 rejected", rejected: 1, status: 200 }, 1)
          yield* complete(failing, 0)
          assert.deepStrictEqual(yield* counts, [2, 1])

          const [failed] = (yield* delivery.list(org_id, destination_id)).filter(
            ({ status }) => status === "failed"
          )
          yield* delivery.replay(org_id, destination_id, failed?.id ?? "")
          assert.deepStrictEqual(yield* counts, [2, 0])
          yield* complete(failing, 0)
          assert.deepStrictEqual(yield* counts, [2, 1])
          yield* delivery.replayMany(org_id, destination_id, [failed?.id ?? ""])
          assert.deepStrictEqual(yield* counts, [2, 0])

          // Near the limit: inserted under the lock of the destination. The last two are beyond it.
          yield* publish(to, 5)
          assert.deepStrictEqual(yield* counts, [2, 2])
          // Full: inserted without the lock.
          yield* publish(to, 2)
          assert.deepStrictEqual(yield* counts, [2, 4])
          assert.deepStrictEqual(yield* readCounts(org_id), yield* recount(org_id))

          yield* transaction(delivery.discard(org_id, destination_id))
          assert.deepStrictEqual(yield* counts, [2, 8])
          assert.deepStrictEqual(yield* readCounts(org_id), yield* recount(org_id))

          // Retention keeps counts.
          const sql = yield* SqlClient.SqlClient
          yield* sql`UPDATE delivery_counts SET day = day - 1`
          yield* ageAllDeliveries
          assert.isAbove((yield* delivery.runRetention).deliveries, 0)
          assert.deepStrictEqual(yield* counts, [2, 8])
        }).pipe(withEngine([channel], { retention: { keep: "1 hour" } }))
      })
  )
})
