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
})
