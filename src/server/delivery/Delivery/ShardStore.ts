import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { int4Array } from "../../store/pgArrays.ts"

/** The values that a heartbeat writes. */
export interface Heartbeat {
  /** How long the renewed leases last, in milliseconds. */
  readonly leaseMillis: number
  /** A peer without a heartbeat for this long is not counted, in milliseconds. */
  readonly heartbeatTimeoutMillis: number
  /** A draining replica renews its leases, but is not registered as live. */
  readonly draining: boolean
}

/** A shard that this replica has claimed. */
export interface ClaimedShard {
  readonly shard: number
  readonly epoch: number
  /** The highest row number of the shard at the time of the claim; 0 if it has no rows. */
  readonly watermark: number
}

/**
 * A lease or heartbeat that ends later than a new one by more than this, in milliseconds, was written before the database's clock was
 * set back, or before a failover to a server whose clock is behind. A live owner replaces it at its next renewal. A dead one would
 * keep its shards, and count as live, until the clock reaches that time again.
 */
const CLOCK_STEP_MILLIS = 60_000

/** The stored leases of the shards, as one replica reads and writes them. */
export interface ShardStore {
  /**
   * Registers this replica as live, renews its leases and counts its live peers. `leases` has the epoch of each shard
   * that this replica owns in the database.
   */
  readonly heartbeat: (
    beat: Heartbeat
  ) => Effect.Effect<
    { readonly peers: number; readonly leases: ReadonlyMap<number, number> },
    SqlError.SqlError
  >
  /** Claims up to `wanted` shards without a live owner, each under a new epoch. */
  readonly claim: (
    wanted: number,
    leaseMillis: number
  ) => Effect.Effect<ReadonlyArray<ClaimedShard>, SqlError.SqlError>
  /** Releases the shards that this replica owns. */
  readonly release: (shards: ReadonlyArray<number>) => Effect.Effect<void, SqlError.SqlError>
  /** Removes this replica's heartbeat, so that its peers no longer count it. */
  readonly deregister: Effect.Effect<void, SqlError.SqlError>
}

/**
 * The leases of `owner`, a name that no other process ever has.
 *
 * Only a claim waits for the disk, because the epoch that it raises must not be used again. What a crash or a failover
 * of the database loses of the others makes a lease end earlier than its owner assumes, or later than it was released.
 * They neither wait for a busy disk nor for a missing standby: while results wait there, leases do not run out, and a
 * stopping replica hands its shards over.
 */
export const makeShardStore = (sql: SqlClient.SqlClient, owner: string): ShardStore => ({
  /**
   * One statement. A peer counts as live while its heartbeat is recent; a silent peer keeps its shards until its lease
   * ends but is left no share.
   *
   * Of two heartbeats at a time the one that began later counts: the server may still execute one whose connection was
   * lost, after the one that replaced it was answered.
   */
  heartbeat: ({ draining, heartbeatTimeoutMillis, leaseMillis }) =>
    Effect.map(
      sql<{ readonly peers: number; readonly shard: number | null; readonly epoch: number | null }>`
        WITH asynchronous AS MATERIALIZED (
          SELECT
            set_config('synchronous_commit', 'off', true) AS setting,
            now() + ${leaseMillis}::float8 * interval '1 millisecond' AS lease_until
        ), registered AS (
          INSERT INTO delivery_owners (owner, lease_until)
          SELECT ${owner}, lease_until
          FROM asynchronous
          WHERE NOT ${draining}::boolean
          ON CONFLICT (owner) DO UPDATE SET lease_until = EXCLUDED.lease_until
        ), renewed AS (
          UPDATE delivery_shards s
          SET lease_until = CASE
            WHEN s.lease_until BETWEEN h.lease_until
              AND h.lease_until + ${leaseMillis}::float8 * interval '1 millisecond'
            THEN s.lease_until
            ELSE h.lease_until
          END
          FROM asynchronous h
          WHERE s.owner = ${owner}
          RETURNING s.shard::int AS shard, s.epoch::float8 AS epoch
        ), live AS (
          SELECT count(*)::int AS peers
          FROM delivery_owners
          WHERE lease_until > now() + ${Math.max(0, leaseMillis - heartbeatTimeoutMillis)}::float8 * interval '1 millisecond'
            AND lease_until <= now() + ${leaseMillis + CLOCK_STEP_MILLIS}::float8 * interval '1 millisecond'
            AND owner <> ${owner}
        )
        SELECT l.peers, r.shard, r.epoch
        FROM live l
        LEFT JOIN renewed r ON true
      `,
      (rows) => {
        const leases = new Map<number, number>()
        for (const { epoch, shard } of rows) if (shard !== null && epoch !== null) leases.set(shard, epoch)
        return { peers: rows[0]?.peers ?? 0, leases }
      }
    ),

  claim: (wanted, leaseMillis) => sql<ClaimedShard>`
    UPDATE delivery_shards s
    SET
      owner = ${owner},
      epoch = epoch + 1,
      lease_until = now() + ${leaseMillis}::float8 * interval '1 millisecond'
    WHERE shard IN (
      SELECT shard
      FROM delivery_shards
      WHERE owner IS NULL
        OR lease_until < now()
        OR lease_until > now() + ${leaseMillis + CLOCK_STEP_MILLIS}::float8 * interval '1 millisecond'
      ORDER BY shard
      LIMIT ${wanted}::int
      FOR UPDATE SKIP LOCKED
    )
    RETURNING
      s.shard::int AS shard,
      s.epoch::float8 AS epoch,
      coalesce((SELECT max(q.seq) FROM delivery_queue q WHERE q.shard = s.shard), 0)::float8 AS watermark
  `,

  release: (shards) =>
    Effect.asVoid(sql`
      WITH asynchronous AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS setting)
      UPDATE delivery_shards s
      SET owner = NULL, lease_until = NULL
      FROM asynchronous
      WHERE s.owner = ${owner}
        AND s.shard = ANY(${int4Array(shards)}::smallint[])
    `),

  deregister: Effect.asVoid(sql`
    WITH asynchronous AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS setting)
    DELETE FROM delivery_owners o
    USING asynchronous
    WHERE o.owner = ${owner}
  `)
})
