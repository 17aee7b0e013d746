import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { makeQueueReads, SWEEP_LANES } from "../../../../src/server/delivery/Delivery/QueueReads.ts"
import { ALL_PARTS, partBit, virtualShardIn } from "../../../../src/server/delivery/Delivery/virtualShards.ts"
import { processTime } from "../../../support/delivery.ts"
import { TestDatabase } from "../../../support/postgres.ts"

const SHARD = 7
/** More than two pages of a sweep. */
const LANES = 1_200
const ROWS = 5

const destination = (lane: number) => `nep_${lane.toString(16).padStart(32, "0")}`
const isIn = (parts: number) => (destination_id: string) =>
  (parts & partBit(virtualShardIn(SHARD, destination_id))) !== 0

/** Some of the parts, a single one, and one that no destination is in. */
const partSets = [ALL_PARTS, 0b0101_0000_1010_0110, 0b1]

layer(TestDatabase.layerSql, { excludeTestServices: true })("QueueReads", (it) => {
  const fill = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      INSERT INTO delivery_queue (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
      SELECT
        ${SHARD}, 'org', 'nep_' || lpad(to_hex(lane), 32, '0'), 'ndl_' || lane || '_' || nth, 'webhook', 'evt', now(), 0, 0
      FROM generate_series(1, ${ROWS}::int) AS nth, generate_series(0, ${LANES - 1}::int) AS lane
      ON CONFLICT DO NOTHING
    `
    yield* sql`ANALYZE delivery_queue`
    return { sql, reads: makeQueueReads(sql, processTime) }
  })

  it.effect(
    "a sweep of some parts of a shard finds the first row of each of their lanes, over all pages",
    () =>
      Effect.gen(function* () {
        const { reads, sql } = yield* fill
        for (const parts of partSets) {
          const found: Array<string> = []
          let after: readonly [string, string] = ["", ""]
          let pages = 0
          for (;;) {
            const page = yield* reads.heads({ shard: SHARD, parts }, after, 60_000)
            pages++
            found.push(...page.filter((row) => row.is_included).map((row) => row.destination_id))
            const last = page.at(-1)
            if (last === undefined || last.lanes < SWEEP_LANES) break
            after = [last.org_id, last.destination_id]
          }
          assert.strictEqual(pages, Math.ceil(LANES / SWEEP_LANES))
          const expected = Array.from({ length: LANES }, (_, lane) => destination(lane)).filter(isIn(parts))
          assert.isAbove(expected.length, 0)
          assert.deepStrictEqual(found, expected)
        }
        yield* sql`DELETE FROM delivery_queue`
      })
  )

  it.effect("the tail of some parts of a shard returns their rows, and says how far it has read", () =>
    Effect.gen(function* () {
      const { reads, sql } = yield* fill
      for (const parts of [...partSets, 0]) {
        const rows: Array<string> = []
        let watermark = 0
        for (;;) {
          const read = yield* reads.tail([{ shard: SHARD, parts, watermark }], 1_000)
          if (read.length === 0) break
          const included = read.filter(({ destination_id }) => isIn(parts)(destination_id))
          assert.isAtLeast(included.length, read.length - 1)
          rows.push(...included.map(({ delivery_id }) => delivery_id))
          assert.isTrue(read.every(({ scanned }) => scanned === 1_000))
          watermark = Math.max(...read.map(({ seq }) => seq))
        }
        const lanes = Array.from({ length: LANES }, (_, lane) => destination(lane)).filter(isIn(parts))
        assert.strictEqual(new Set(rows).size, lanes.length * ROWS)
      }
      yield* sql`DELETE FROM delivery_queue`
    })
  )

  it.effect("reads of some parts of a shard use the indexes, and read no more than their limit", () =>
    Effect.gen(function* () {
      const { reads, sql } = yield* fill
      const plan = (statement: unknown) =>
        Statement.isFragment(statement)
          ? Effect.map(
              sql<{
                readonly "QUERY PLAN": string
              }>`EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${statement}`,
              (rows) => rows.map((row) => row["QUERY PLAN"]).join("\n")
            )
          : assert.fail("not a statement")
      const tail = yield* plan(reads.tail([{ shard: SHARD, parts: 0b1, watermark: 0 }], 100))
      assert.match(
        tail,
        /Index Scan using delivery_queue_pkey on delivery_queue q\w* \(actual rows=100(\.00)? loops=1\)/
      )
      const heads = yield* plan(reads.heads({ shard: SHARD, parts: 0b1 }, ["", ""], 60_000))
      for (const text of [tail, heads]) assert.notMatch(text, /Seq Scan on delivery_queue/)
      // The first row is read of the lanes that are included only: one in sixteen, and the last.
      assert.match(
        heads,
        /Index Scan using delivery_queue_lanes on delivery_queue q\w* \(actual rows=1(\.00)? loops=3[0-9]\)/
      )
      yield* sql`DELETE FROM delivery_queue`
    })
  )
})
