import { assert, describe } from "@effect/vitest"
import { Effect, Logger, Queue, References } from "effect"
import { SqlClient } from "effect/sql"
import {
  allHaveStatus,
  awaitRecords,
  delivered,
  failing,
  manualChannel,
  newDestination,
  noCooldown,
  publish,
  quickPolicy,
  respondingChannel,
  singleAttempt,
  testWithDatabase,
  withEngine
} from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"

/** Collects the log lines about one destination. */
const collectLog = () => {
  const lines: Array<{ readonly message: string; readonly annotations: Readonly<Record<string, unknown>> }> =
    []
  const collector = Logger.make<unknown, void>(({ fiber, message }) => {
    lines.push({
      message: String([message].flat()[0]),
      annotations: fiber.getRef(References.CurrentLogAnnotations)
    })
  })
  return {
    layer: Logger.layer([collector]),
    of: (destination_id: string) =>
      lines.filter(({ annotations }) => annotations["destination_id"] === destination_id)
  }
}

describe("the log of deliveries", () => {
  testWithDatabase(
    "a delivery that failed for good has one line, and one that a retry delivered has none",
    () =>
      Effect.gen(function* () {
        const log = collectLog()
        const good = yield* newDestination
        const bad = yield* newDestination
        const { channel } = yield* respondingChannel(quickPolicy({ cooldown: noCooldown }), (ref, nth) =>
          ref.destination_id === good.destination_id && nth > 2 ? delivered : failing
        )
        yield* Effect.gen(function* () {
          yield* publish(good)
          yield* publish(bad)
          yield* awaitRecords(good, allHaveStatus("delivered"))
          const [record] = yield* awaitRecords(bad, allHaveStatus("failed"))
          yield* eventually(
            Effect.sync(() => log.of(bad.destination_id)),
            (lines) => lines.length > 0
          )
          assert.deepStrictEqual(log.of(bad.destination_id), [
            {
              message: "A delivery failed and will not be retried: HTTP 503",
              annotations: {
                channel: "held",
                ...bad,
                delivery_id: record?.id,
                verdict: "failed",
                count: 1
              }
            }
          ])
          assert.deepStrictEqual(log.of(good.destination_id), [])
        }).pipe(withEngine([channel]), Effect.provide(log.layer))
      })
  )

  testWithDatabase("a destination that keeps failing has one line, at its first cooldown", () =>
    Effect.gen(function* () {
      const log = collectLog()
      const to = yield* newDestination
      const sql = yield* SqlClient.SqlClient
      const cooldown = { failureThreshold: 1, firstMillis: 1, longestMillis: 1 }
      const { attempts, channel } = yield* manualChannel(quickPolicy({ cooldown, retry: singleAttempt }))
      yield* Effect.gen(function* () {
        yield* publish(to, 3)
        for (let failures = 1; failures <= 3; failures++) {
          yield* (yield* Queue.take(attempts)).complete(failing)
          yield* eventually(
            sql<{ readonly failures: number }>`
              SELECT consecutive_failures AS failures FROM delivery_destinations WHERE destination_id = ${to.destination_id}
            `,
            ([stored]) => stored?.failures === failures
          )
        }
        yield* awaitRecords(to, allHaveStatus("failed"))
        const inCooldown = () =>
          log.of(to.destination_id).filter(({ message }) => message.startsWith("Deliveries to a destination"))
        yield* eventually(Effect.sync(inCooldown), (lines) => lines.length > 0)
        assert.deepStrictEqual(
          inCooldown().map(({ message }) => message),
          ["Deliveries to a destination fail; it gets no attempts during a cooldown: HTTP 503"]
        )
      }).pipe(withEngine([channel]), Effect.provide(log.layer))
    })
  )

  testWithDatabase("a full queue has one line a minute, however many deliveries it rejects", () =>
    Effect.gen(function* () {
      const log = collectLog()
      const to = yield* newDestination
      const { channel } = yield* manualChannel(quickPolicy({ queueLimit: 1 }))
      yield* Effect.gen(function* () {
        for (let count = 0; count < 4; count++) yield* publish(to)
        assert.deepStrictEqual(
          log.of(to.destination_id).map(({ annotations, message }) => [message, annotations["verdict"]]),
          [["A delivery failed and will not be retried: queue full", "queue_full"]]
        )
      }).pipe(withEngine([channel]), Effect.provide(log.layer))
    })
  )
})
