import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { OrgId } from "../../../../src/domain/Ids.ts"
import { makeClusterQueueReads } from "../../../../src/server/delivery/Delivery/ClusterQueueReads.ts"
import {
  makeQueueReads,
  SWEEP_LANES,
  type SweepPosition
} from "../../../../src/server/delivery/Delivery/QueueReads.ts"
import { processTime } from "../../../support/delivery.ts"
import { TestDatabase } from "../../../support/postgres.ts"

const ROWS = 5
const HORIZON_MILLIS = 60_000

const destination = (lane: number) => `nep_${lane.toString(16).padStart(32, "0")}`
const beginning = (shard: number): SweepPosition => ({ shard, org_id: "", destination_id: "" })

layer(TestDatabase.layerSql, { excludeTestServices: true })("QueueReads", (it) => {
  /** An empty queue. */
  const makeReads = Effect.fn(function* (make: typeof makeClusterQueueReads = makeQueueReads) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`DELETE FROM delivery_queue`
    yield* sql`DELETE FROM delivery_destinations`
    const reads = make(sql, processTime)
    /** Queues `ROWS` deliveries for each of the destinations up to `lanes`, due in some seconds. */
    const fill = (shard: number, channel: string, lanes: number, dueSeconds = 0) => sql`
      INSERT INTO delivery_queue (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
      SELECT
        ${shard}, 'org', 'nep_' || lpad(to_hex(lane), 32, '0'), 'ndl_' || ${shard}::int || '_' || lane || '_' || nth, ${channel}, 'evt',
        now() + ${dueSeconds}::float8 * interval '1 second', 0, 0
      FROM generate_series(1, ${ROWS}::int) AS nth, generate_series(0, ${lanes - 1}::int) AS lane
      ON CONFLICT DO NOTHING
    `
    return { sql, reads, fill }
  })

  for (const [where, make] of [
    ["of PostgreSQL", makeQueueReads],
    ["of a cluster", makeClusterQueueReads]
  ] as const) {
    it.effect(
      `a sweep of several shards ${where} finds the first row of each lane, over all pages of each shard`,
      () =>
        Effect.gen(function* () {
          const { fill, reads } = yield* makeReads(make)
          // More than two pages, exactly one, and less than one.
          const shards = new Map([
            [7, 2 * SWEEP_LANES + 6],
            [9, SWEEP_LANES],
            [255, 3]
          ])
          for (const [shard, lanes] of shards) yield* fill(shard, "webhook", lanes)
          const found: Array<string> = []
          const pages: Array<ReadonlyArray<number>> = []
          let positions: ReadonlyArray<SweepPosition> = [...shards.keys()].map(beginning)
          while (positions.length > 0) {
            pages.push(positions.map(({ shard }) => shard))
            const rows = yield* reads.heads(positions, HORIZON_MILLIS)
            found.push(...rows.map((row) => row.delivery_id))
            positions = positions.flatMap(({ shard }) => {
              const last = rows.findLast((row) => row.shard === shard)
              return last?.lanes === SWEEP_LANES ? [last] : []
            })
          }
          assert.deepStrictEqual(pages, [[7, 9, 255], [7, 9], [7]])
          const expected = [...shards].flatMap(([shard, lanes]) =>
            Array.from({ length: lanes }, (_, lane) => `ndl_${shard}_${lane}_1`)
          )
          assert.deepStrictEqual(found.toSorted(), expected.toSorted())
        })
    )

    it.effect(
      `of lanes that are not due, a sweep ${where} returns the last one of each channel and of each full page, and counts those in cooldown`,
      () =>
        Effect.gen(function* () {
          const { fill, reads, sql } = yield* makeReads(make)
          yield* fill(7, "otlp", 10, 3_600)
          yield* fill(7, "webhook", SWEEP_LANES + 8, 3_600)
          yield* fill(9, "webhook", 2, 3_600)
          yield* sql`DELETE FROM delivery_queue WHERE shard = 7 AND channel = 'webhook' AND destination_id < ${destination(10)}`
          yield* sql`
          INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures, cooldown_until)
          SELECT 'org', destination_id, 3, now() + interval '1 hour'
          FROM unnest(${[3, 4, 12, SWEEP_LANES + 1].map(destination)}::text[]) AS destination_id
        `
          const read = yield* reads.heads([7, 9].map(beginning), HORIZON_MILLIS)
          assert.deepStrictEqual(
            read.map((row) => [row.shard, row.channel, row.destination_id, row.lanes, row.cooling_down]),
            [
              [7, "otlp", destination(9), SWEEP_LANES, 2],
              [7, "webhook", destination(SWEEP_LANES - 1), SWEEP_LANES, 1],
              [9, "webhook", destination(1), 2, 1]
            ]
          )
          const rest = yield* reads.heads(
            read.filter(({ lanes }) => lanes === SWEEP_LANES).slice(-1),
            HORIZON_MILLIS
          )
          assert.deepStrictEqual(
            rest.map((row) => [row.shard, row.destination_id, row.lanes, row.cooling_down]),
            [[7, destination(SWEEP_LANES + 7), 8, 1]]
          )
        })
    )
  }

  it.effect("the reads of a cluster return the same rows", () =>
    Effect.gen(function* () {
      const { fill, reads, sql } = yield* makeReads()
      const clustered = makeClusterQueueReads(sql, processTime)
      for (const shard of [7, 9]) yield* fill(shard, "webhook", 20)
      const ids = (rows: ReadonlyArray<{ readonly delivery_id: string }>) =>
        rows.map(({ delivery_id }) => delivery_id).toSorted()
      const [row] = yield* sql<{ readonly seq: number }>`SELECT min(seq)::float8 AS seq FROM delivery_queue`
      const first = row?.seq ?? assert.fail("a row")
      const ranges = [
        { shard: 7, reread: first + 9, watermark: first + 79 },
        { shard: 9, reread: 0, watermark: 0 }
      ]
      assert.deepStrictEqual(ids(yield* clustered.tail(ranges, 1_000)), ids(yield* reads.tail(ranges, 1_000)))
      // Of more new rows than the limit, those that were queued first.
      assert.isAtLeast((yield* clustered.tail(ranges, 5)).length, 2 * 5)
      assert.sameDeepMembers([...(yield* clustered.nonEmpty([7, 8, 9]))], [{ shard: 7 }, { shard: 9 }])
      const lanes = [3, 4].map((lane) => ({
        shard: 7,
        org_id: OrgId.make("org", { disableChecks: true }),
        destination_id: destination(lane)
      }))
      assert.deepStrictEqual(ids(yield* clustered.refill(lanes, 3)), ids(yield* reads.refill(lanes, 3)))
    })
  )

  it.effect(
    "the tail reads up to its limit of new rows in each shard, and all of those to be read again",
    () =>
      Effect.gen(function* () {
        const { fill, reads, sql } = yield* makeReads()
        for (const shard of [7, 9]) yield* fill(shard, "webhook", 20)
        const rows = yield* sql<{ readonly shard: number; readonly seq: number }>`
        SELECT shard::int AS shard, seq::float8 AS seq FROM delivery_queue ORDER BY seq
      `
        const seqsOf = (shard: number) => rows.filter((row) => row.shard === shard).map(({ seq }) => seq)
        const seqAt = (shard: number, index: number) => seqsOf(shard)[index] ?? assert.fail("a row")
        const ranges = [
          { shard: 7, reread: seqAt(7, 9), watermark: seqAt(7, 79) },
          { shard: 9, reread: seqAt(9, 49), watermark: seqAt(9, 49) },
          { shard: 11, reread: 0, watermark: 0 }
        ]
        const read = (yield* reads.tail(ranges, 30)).map(({ seq }) => seq)
        assert.sameMembers(read, [...seqsOf(7).slice(10), ...seqsOf(9).slice(50, 80)])
        const limited = (yield* reads.tail(ranges, 7)).map(({ seq }) => seq)
        assert.sameMembers(limited, [...seqsOf(7).slice(10, 87), ...seqsOf(9).slice(50, 57)])
      })
  )

  it.effect("reads of many shards use the indexes, and read no more than their limits", () =>
    Effect.gen(function* () {
      const { fill, reads, sql } = yield* makeReads()
      for (let shard = 0; shard < 16; shard++) yield* fill(shard, "webhook", 100)
      yield* sql`ANALYZE delivery_queue`
      const plan = (statement: unknown) =>
        Statement.isFragment(statement)
          ? Effect.map(
              sql<{
                readonly "QUERY PLAN": string
              }>`EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${statement}`,
              (rows) => rows.map((row) => row["QUERY PLAN"]).join("\n")
            )
          : assert.fail("not a statement")
      const shards = Array.from({ length: 16 }, (_, shard) => shard)
      const tail = yield* plan(
        reads.tail(
          shards.map((shard) => ({ shard, reread: 0, watermark: 0 })),
          20
        )
      )
      assert.match(
        tail,
        /Index Scan using delivery_queue_pkey on delivery_queue q\w* \(actual rows=20(\.00)? loops=16\)/
      )
      // A shard without rows to read again is not probed for them.
      assert.match(tail, /One-Time Filter: \(s.reread < s.watermark\)\n.*\(never executed\)/)
      const heads = yield* plan(reads.heads(shards.map(beginning), HORIZON_MILLIS))
      for (const text of [tail, heads]) assert.notMatch(text, /Seq Scan on delivery_queue/)
      // One probe a lane, for the next lane and for its first row.
      assert.match(
        heads,
        /using delivery_queue_lanes on delivery_queue q\w* \(actual rows=1(\.00)? loops=16\)/
      )
      assert.match(
        heads,
        new RegExp(
          `using delivery_queue_lanes on delivery_queue q\\w* \\(actual rows=1(\\.00)? loops=${16 * (SWEEP_LANES - 1)}\\)\\s+Index Cond: \\(\\(shard = s.shard\\) AND \\(ROW\\(`
        )
      )
      assert.match(
        heads,
        new RegExp(
          `using delivery_queue_lanes on delivery_queue q\\w* \\(actual rows=1(\\.00)? loops=${16 * SWEEP_LANES}\\)`
        )
      )
    })
  )
})
