import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { healthy } from "../../../../src/domain/delivery/Cooldown.ts"
import { Lane } from "../../../../src/server/delivery/Delivery/Lane.ts"
import { toQueuedDelivery } from "../../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { shardOf } from "../../../../src/server/delivery/Delivery/shardOf.ts"
import { writeHealth } from "../../../../src/server/delivery/Delivery/writeHealth.ts"
import {
  manualChannel,
  newDestination,
  ownedShard,
  processTime,
  queueRow,
  quickPolicy
} from "../../../support/delivery.ts"
import { TestDatabase } from "../../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("writeHealth", (it) => {
  it.effect("a former owner of a shard does not change the health that the current owner has stored", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { channel } = yield* manualChannel(quickPolicy())
      const to = yield* newDestination
      const shard = shardOf(to.destination_id)
      yield* sql`UPDATE delivery_shards SET epoch = 7 WHERE shard = ${shard}`
      const store = (epoch: number, failures: number) => {
        const row = queueRow({ ...to, shard })
        const owned = { ...ownedShard(0), shard, epoch }
        const key = `${to.org_id}/${to.destination_id}`
        const lane = new Lane(key, channel, owned, toQueuedDelivery(row, 0), healthy)
        return writeHealth(sql, processTime, new Map([[lane, { _tag: "Healthy", failures }]]))
      }
      const stored = sql`
        SELECT consecutive_failures AS failures FROM delivery_destinations WHERE destination_id = ${to.destination_id}
      `
      yield* store(6, 1)
      assert.deepStrictEqual(yield* stored, [])
      yield* store(7, 3)
      yield* store(6, 1)
      assert.deepStrictEqual(yield* stored, [{ failures: 3 }])
    })
  )

  it.effect("an outage begins with the first failure, and a success between two writes begins another", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { channel } = yield* manualChannel(quickPolicy())
      const to = yield* newDestination
      const shard = shardOf(to.destination_id)
      const row = queueRow({ ...to, shard })
      const lane = new Lane(
        `${to.org_id}/${to.destination_id}`,
        channel,
        { ...ownedShard(0), shard, epoch: 0 },
        toQueuedDelivery(row, 0),
        healthy
      )
      yield* sql`UPDATE delivery_shards SET epoch = 0 WHERE shard = ${shard}`
      const store = (failures: number) =>
        writeHealth(sql, processTime, new Map([[lane, { _tag: "Healthy", failures }]]))
      /** Makes the outage an hour older, and reports it. */
      const report = sql`
        UPDATE delivery_destinations
        SET failing_since = failing_since - interval '1 hour', outage_reported_at = now()
        WHERE destination_id = ${to.destination_id}
      `
      const outage = Effect.map(
        sql<{ readonly minutes: number | null; readonly reported: boolean }>`
          SELECT
            round(extract(epoch FROM now() - failing_since) / 60)::int AS minutes,
            outage_reported_at IS NOT NULL AS reported
          FROM delivery_destinations
          WHERE destination_id = ${to.destination_id}
        `,
        ([found]) => found
      )
      yield* store(2)
      assert.deepStrictEqual(yield* outage, { minutes: 0, reported: false })
      yield* report
      yield* store(3)
      assert.deepStrictEqual(yield* outage, { minutes: 60, reported: true })
      yield* store(1)
      assert.deepStrictEqual(yield* outage, { minutes: 0, reported: false })
      yield* report
      yield* store(0)
      assert.deepStrictEqual(yield* outage, { minutes: null, reported: false })
    })
  )
})
