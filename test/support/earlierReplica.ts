/** A replica of the release before virtual shards, as far as other replicas notice it: with its statements, and a loop instead of its engine. */
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { int4Array } from "../../src/server/store/pgArrays.ts"

const SHARDS = 16
const LEASE_MILLIS = 10_000
const HEARTBEAT_TIMEOUT_MILLIS = 3_000
const CLOCK_STEP_MILLIS = 60_000
const PAUSE_MILLIS = 20

/** Its leases of whole shards. */
export const makeEarlierLeases = (sql: SqlClient.SqlClient, owner: string) => {
  const owned = new Map<number, number>()

  const heartbeat = sql<{
    readonly peers: number
    readonly shard: number | null
    readonly epoch: number | null
  }>`
    WITH asynchronous AS MATERIALIZED (
      SELECT now() + ${LEASE_MILLIS}::float8 * interval '1 millisecond' AS lease_until
    ), registered AS (
      INSERT INTO delivery_owners (owner, lease_until)
      SELECT ${owner}, lease_until
      FROM asynchronous
      ON CONFLICT (owner) DO UPDATE SET lease_until = EXCLUDED.lease_until
    ), renewed AS (
      UPDATE delivery_shards s
      SET lease_until = h.lease_until
      FROM asynchronous h
      WHERE s.owner = ${owner}
      RETURNING s.shard::int AS shard, s.epoch::float8 AS epoch
    ), live AS (
      SELECT count(*)::int AS peers
      FROM delivery_owners
      WHERE lease_until > now() + ${LEASE_MILLIS - HEARTBEAT_TIMEOUT_MILLIS}::float8 * interval '1 millisecond'
        AND lease_until <= now() + ${LEASE_MILLIS + CLOCK_STEP_MILLIS}::float8 * interval '1 millisecond'
        AND owner <> ${owner}
    )
    SELECT l.peers, r.shard, r.epoch
    FROM live l
    LEFT JOIN renewed r ON true
  `
  const claim = (wanted: number) => sql<{ readonly shard: number; readonly epoch: number }>`
    UPDATE delivery_shards s
    SET
      owner = ${owner},
      epoch = epoch + 1,
      lease_until = now() + ${LEASE_MILLIS}::float8 * interval '1 millisecond'
    WHERE shard IN (
      SELECT shard
      FROM delivery_shards
      WHERE owner IS NULL
        OR lease_until < now()
        OR lease_until > now() + ${LEASE_MILLIS + CLOCK_STEP_MILLIS}::float8 * interval '1 millisecond'
      ORDER BY shard
      LIMIT ${wanted}::int
      FOR UPDATE SKIP LOCKED
    )
    RETURNING s.shard::int AS shard, s.epoch::float8 AS epoch
  `
  const release = (shards: ReadonlyArray<number>) => sql`
    UPDATE delivery_shards
    SET owner = NULL, lease_until = NULL
    WHERE owner = ${owner}
      AND shard = ANY(${int4Array(shards)}::smallint[])
  `

  return {
    /** The owned shards and their epochs. */
    owned,
    /** Renews, then claims or releases shards. Call it while no attempt is in flight. */
    rebalance: Effect.gen(function* () {
      const rows = yield* heartbeat
      const epochs = new Map(rows.map(({ epoch, shard }) => [shard, epoch]))
      for (const [shard, epoch] of owned) if (epochs.get(shard) !== epoch) owned.delete(shard)
      const share = Math.ceil(SHARDS / ((rows[0]?.peers ?? 0) + 1))
      const surplus = [...owned.keys()].slice(share)
      for (const shard of surplus) owned.delete(shard)
      if (surplus.length > 0) yield* release(surplus)
      if (share > owned.size) {
        for (const { epoch, shard } of yield* claim(share - owned.size)) owned.set(shard, epoch)
      }
    }),
    /** Deregisters and releases everything. */
    stop: Effect.gen(function* () {
      yield* sql`DELETE FROM delivery_owners WHERE owner = ${owner}`
      yield* release([...owned.keys()])
      owned.clear()
    })
  }
}

/** Starts one that sends by `send`. The effect that it returns stops it, as a shutdown does. */
export const startEarlierReplica = Effect.fnUntraced(function* (
  owner: string,
  send: (destination_id: string, delivery_id: string) => Effect.Effect<void>
) {
  const sql = yield* SqlClient.SqlClient
  const leases = makeEarlierLeases(sql, owner)
  const state = { isStopping: false }
  const sendAll = Effect.gen(function* () {
    const rows = yield* sql<{
      readonly shard: number
      readonly seq: number
      readonly destination_id: string
      readonly delivery_id: string
    }>`
      SELECT shard::int AS shard, seq::float8 AS seq, destination_id, delivery_id
      FROM delivery_queue
      WHERE shard = ANY(${int4Array([...leases.owned.keys()])}::smallint[])
      ORDER BY seq
      LIMIT 5
    `
    for (const { delivery_id, destination_id, seq, shard } of rows) {
      yield* send(destination_id, delivery_id)
      yield* sql`
        WITH done AS (
          DELETE FROM delivery_queue q
          USING delivery_shards s
          WHERE q.shard = ${shard}::smallint
            AND q.seq = ${seq}::bigint
            AND s.shard = q.shard
            AND s.epoch = ${leases.owned.get(shard) ?? -1}::bigint
          RETURNING q.delivery_id
        )
        UPDATE deliveries d
        SET status = 'delivered', attempts = d.attempts + 1, finished_at = now()
        FROM done
        WHERE d.delivery_id = done.delivery_id
      `
    }
  })
  const fiber = yield* Effect.forkChild(
    Effect.gen(function* () {
      while (!state.isStopping) {
        yield* leases.rebalance
        yield* sendAll
        yield* Effect.sleep(PAUSE_MILLIS)
      }
      yield* leases.stop
    })
  )
  return {
    leases,
    stop: Effect.andThen(
      Effect.sync(() => {
        state.isStopping = true
      }),
      Fiber.join(fiber)
    )
  }
})
