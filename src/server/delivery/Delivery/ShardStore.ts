import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { int4Array } from "../../store/pgArrays.ts"
import { transaction } from "../../store/transaction.ts"
import { SHARDS } from "./virtualShards.ts"

/** The values that a heartbeat writes. */
export interface Heartbeat {
  /** How long the renewed lease lasts, in milliseconds. */
  readonly leaseMillis: number
  /** A peer without a heartbeat for this long is not counted, in milliseconds. */
  readonly heartbeatTimeoutMillis: number
  /** A draining replica renews its lease, but is not registered as live. */
  readonly draining: boolean
}

/** Replicas and shards that a heartbeat found. */
export interface HeartbeatResult {
  /** Live replicas besides this one, of any release. */
  readonly peers: number
  /** Those among them that share the virtual shards. */
  readonly sharers: number
  /** How many of these come before this replica, in the order of their names: the first ones get the remainder of the division. */
  readonly rank: number
  /** Shards of the queue whose virtual shards can be owned. */
  readonly sharedShards: number
  /** Whether shards of the queue have no live owner. */
  readonly hasFreeShards: boolean
  /** The fencing token of each virtual shard that this replica owns in the database. */
  readonly leases: ReadonlyMap<number, number>
}

/** A virtual shard that this replica has claimed. */
export interface ClaimedShard {
  readonly virtual_shard: number
  /** Its shard of the queue. */
  readonly shard: number
  readonly epoch: number
  /** The highest row number of the shard of the queue at the time of the claim; 0 if it has no rows. */
  readonly watermark: number
}

/**
 * A lease or heartbeat that ends later than a new one by more than this, in milliseconds, was written before the database's clock was
 * set back, or before a failover to a server whose clock is behind. A live owner replaces it at its next renewal. A dead one would
 * keep its shards, and count as live, until the clock reaches that time again.
 */
const CLOCK_STEP_MILLIS = 60_000

/**
 * The lease that replicas of this release hold together on a shard of the queue ends this much later than the last renewed lease of any of
 * them, or up to twice as much, in milliseconds: a replica of an earlier release must not find it expired before theirs.
 */
const SHARED_LEASE_EXTRA_MILLIS = 2_000

/** The owner in `delivery_shards` of a shard whose virtual shards have owners of their own. Replicas of earlier releases take it for a peer. */
export const VIRTUAL_OWNER = "virtual shards"

/** The stored leases of the shards, as one replica reads and writes them. */
export interface ShardStore {
  /**
   * Registers this replica as live, renews its lease and the shared leases, removes expired ones and counts the live
   * peers. If its own lease was removed, the replica owns nothing any more and gets a new lease.
   */
  readonly heartbeat: (beat: Heartbeat) => Effect.Effect<HeartbeatResult, SqlError.SqlError>
  /** Acquires the shards of the queue without a live owner, for all replicas of this release. Returns how many. */
  readonly acquireShards: (leaseMillis: number) => Effect.Effect<number, SqlError.SqlError>
  /** Claims up to `wanted` virtual shards without an owner that has a lease, each under a new epoch. */
  readonly claim: (wanted: number) => Effect.Effect<ReadonlyArray<ClaimedShard>, SqlError.SqlError>
  /** Releases the virtual shards that this replica owns. */
  readonly release: (virtualShards: ReadonlyArray<number>) => Effect.Effect<void, SqlError.SqlError>
  /**
   * Releases the shards of the queue of which no virtual shard is owned, if no other replica of this release is alive: one of an earlier
   * release may own them next.
   */
  readonly releaseShards: Effect.Effect<void, SqlError.SqlError>
  /** Removes this replica's heartbeat, so that its peers no longer count it. */
  readonly deregister: Effect.Effect<void, SqlError.SqlError>
  /** Removes this replica's lease, and so releases all that it owns. */
  readonly endLease: Effect.Effect<void, SqlError.SqlError>
}

/**
 * The leases of `owner`, a name that no other process ever has.
 *
 * Only claims and acquisitions wait for the disk, because the epochs that they raise must not be used again. A crash or a failover of the
 * database can lose the other writes: a lease then ends earlier than its owner assumes, or later than it was released.
 * They neither wait for a busy disk nor for a missing standby: while results wait there, leases do not run out, and a
 * stopping replica hands its shards over.
 */
export const makeShardStore = (sql: SqlClient.SqlClient, owner: string): ShardStore => {
  /** The statement does not wait for the disk. */
  const asynchronously = sql`asynchronous AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS setting)`
  const fromNow = (millis: number) => sql`now() + ${millis}::float8 * interval '1 millisecond'`

  return {
    /**
     * One statement, and one row per replica, however many virtual shards it owns. A peer counts as live while its
     * heartbeat is recent; a silent peer keeps its shards until its lease ends but is left no share.
     *
     * A claim takes virtual shards only from an owner whose lease was removed before the claim began. A renewal and a
     * removal lock the same row, so either the renewal finds no lease, or the removal finds it renewed.
     *
     * Of two heartbeats at a time the one that began later counts: the server may still execute one whose connection was
     * lost, after the one that replaced it was answered.
     */
    heartbeat: ({ draining, heartbeatTimeoutMillis, leaseMillis }) =>
      Effect.map(
        sql<{
          readonly peers: number
          readonly sharers: number
          readonly rank: number
          readonly shared_shards: number
          readonly free_shards: number
          readonly virtual_shard: number | null
          readonly epoch: number | null
        }>`
        WITH asynchronous AS MATERIALIZED (
          SELECT
            set_config('synchronous_commit', 'off', true) AS setting,
            ${fromNow(leaseMillis)} AS lease_until,
            ${fromNow(leaseMillis + CLOCK_STEP_MILLIS)} AS latest
        ), registered AS (
          INSERT INTO delivery_owners (owner, lease_until)
          SELECT ${owner}, lease_until
          FROM asynchronous
          WHERE NOT ${draining}::boolean
          ON CONFLICT (owner) DO UPDATE SET lease_until = EXCLUDED.lease_until
        ), renewed AS (
          UPDATE delivery_leases l
          SET lease_until = CASE
            WHEN l.lease_until BETWEEN h.lease_until
              AND h.lease_until + ${leaseMillis}::float8 * interval '1 millisecond'
            THEN l.lease_until
            ELSE h.lease_until
          END
          FROM asynchronous h
          WHERE l.owner = ${owner}
          RETURNING l.owner
        ), begun AS (
          INSERT INTO delivery_leases AS l (owner, lease_until)
          SELECT ${owner}, lease_until
          FROM asynchronous
          WHERE NOT ${draining}::boolean
            AND NOT EXISTS (SELECT FROM renewed)
          ON CONFLICT (owner) DO UPDATE SET lease_until = greatest(l.lease_until, EXCLUDED.lease_until)
        ), lost AS (
          UPDATE delivery_virtual_shards v
          SET owner = NULL
          WHERE v.owner = ${owner}
            AND (
              NOT EXISTS (SELECT FROM renewed)
              OR v.virtual_shard % ${SHARDS}::smallint NOT IN (
                SELECT shard
                FROM delivery_shards
                WHERE owner = ${VIRTUAL_OWNER}
              )
            )
        ), expired AS (
          DELETE FROM delivery_leases
          WHERE owner IN (
            SELECT l.owner
            FROM delivery_leases l
            CROSS JOIN asynchronous h
            WHERE l.owner <> ${owner}
              AND (l.lease_until < now() OR l.lease_until > h.latest)
            FOR UPDATE OF l SKIP LOCKED
          )
        ), shared AS MATERIALIZED (
          SELECT s.shard, h.lease_until
          FROM delivery_shards s
          CROSS JOIN asynchronous h
          WHERE s.owner = ${VIRTUAL_OWNER}
            AND (
              s.lease_until < h.lease_until + ${SHARED_LEASE_EXTRA_MILLIS}::float8 * interval '1 millisecond'
              OR s.lease_until > h.latest
            )
          ORDER BY s.shard
          FOR NO KEY UPDATE OF s SKIP LOCKED
        ), kept AS (
          UPDATE delivery_shards s
          SET lease_until = h.lease_until + ${2 * SHARED_LEASE_EXTRA_MILLIS}::float8 * interval '1 millisecond'
          FROM shared h
          WHERE s.shard = h.shard
        ), live AS (
          SELECT
            count(*)::int AS peers,
            count(l.owner)::int AS sharers,
            (count(l.owner) FILTER (WHERE l.owner < ${owner}))::int AS rank
          FROM delivery_owners o
          LEFT JOIN delivery_leases l ON l.owner = o.owner
          WHERE o.lease_until > ${fromNow(Math.max(0, leaseMillis - heartbeatTimeoutMillis))}
            AND o.lease_until <= ${fromNow(leaseMillis + CLOCK_STEP_MILLIS)}
            AND o.owner <> ${owner}
        ), queue AS (
          SELECT
            (count(*) FILTER (WHERE s.owner = ${VIRTUAL_OWNER}))::int AS shared_shards,
            (count(*) FILTER (
              WHERE s.owner IS NULL
                OR (s.owner <> ${VIRTUAL_OWNER} AND (s.lease_until < now() OR s.lease_until > h.latest))
            ))::int AS free_shards
          FROM delivery_shards s
          CROSS JOIN asynchronous h
        ), mine AS (
          SELECT v.virtual_shard::int AS virtual_shard, (s.epoch + v.epoch)::float8 AS epoch
          FROM delivery_virtual_shards v
          JOIN delivery_shards s ON s.shard = v.virtual_shard % ${SHARDS}::smallint AND s.owner = ${VIRTUAL_OWNER}
          WHERE v.owner = ${owner}
            AND EXISTS (SELECT FROM renewed)
        )
        SELECT l.peers, l.sharers, l.rank, q.shared_shards, q.free_shards, m.virtual_shard, m.epoch
        FROM live l
        CROSS JOIN queue q
        LEFT JOIN mine m ON true
      `,
        (rows) => {
          const leases = new Map<number, number>()
          for (const { epoch, virtual_shard } of rows) {
            if (virtual_shard !== null && epoch !== null) leases.set(virtual_shard, epoch)
          }
          const [row] = rows
          return {
            peers: row?.peers ?? 0,
            sharers: row?.sharers ?? 0,
            rank: row?.rank ?? 0,
            sharedShards: row?.shared_shards ?? 0,
            hasFreeShards: (row?.free_shards ?? 0) > 0,
            leases
          }
        }
      ),

    acquireShards: (leaseMillis) =>
      Effect.map(
        sql`
          UPDATE delivery_shards
          SET
            owner = ${VIRTUAL_OWNER},
            epoch = epoch + 1,
            lease_until = ${fromNow(leaseMillis + 2 * SHARED_LEASE_EXTRA_MILLIS)}
          WHERE shard IN (
            SELECT shard
            FROM delivery_shards
            WHERE owner IS NULL
              OR (
                owner <> ${VIRTUAL_OWNER}
                AND (lease_until < now() OR lease_until > ${fromNow(leaseMillis + CLOCK_STEP_MILLIS)})
              )
            ORDER BY shard
            FOR UPDATE SKIP LOCKED
          )
          RETURNING shard
        `,
        (rows) => rows.length
      ),

    // `seen` is the row as of the statement's beginning, also if `v` was claimed meanwhile and is read again: the lease of
    // that owner may be too new for this statement to see. The shard of the queue is locked against its release
    // (`releaseShards`), which would not see this claim.
    claim: (wanted) => sql<ClaimedShard>`
      WITH free AS MATERIALIZED (
        SELECT v.virtual_shard, s.shard, s.epoch
        FROM delivery_virtual_shards v
        JOIN delivery_virtual_shards seen ON seen.virtual_shard = v.virtual_shard AND seen.epoch = v.epoch
        JOIN delivery_shards s ON s.shard = v.virtual_shard % ${SHARDS}::smallint
        WHERE s.owner = ${VIRTUAL_OWNER}
          AND s.lease_until > now()
          AND (v.owner IS NULL OR NOT EXISTS (SELECT FROM delivery_leases l WHERE l.owner = v.owner))
        ORDER BY s.shard, v.virtual_shard
        LIMIT ${wanted}::int
        FOR NO KEY UPDATE OF v SKIP LOCKED
        FOR SHARE OF s
      ), claimed AS (
        UPDATE delivery_virtual_shards v
        SET owner = ${owner}, epoch = v.epoch + 1
        FROM free f
        WHERE v.virtual_shard = f.virtual_shard
        RETURNING v.virtual_shard, f.shard, f.epoch + v.epoch AS epoch
      ), queue AS MATERIALIZED (
        SELECT f.shard, coalesce((SELECT max(q.seq) FROM delivery_queue q WHERE q.shard = f.shard), 0) AS watermark
        FROM (SELECT DISTINCT shard FROM free) f
      )
      SELECT
        c.virtual_shard::int AS virtual_shard,
        c.shard::int AS shard,
        c.epoch::float8 AS epoch,
        q.watermark::float8 AS watermark
      FROM claimed c
      JOIN queue q ON q.shard = c.shard
    `,

    release: (virtualShards) =>
      Effect.asVoid(sql`
        WITH ${asynchronously}
        UPDATE delivery_virtual_shards v
        SET owner = NULL
        FROM asynchronous
        WHERE v.owner = ${owner}
          AND v.virtual_shard = ANY(${int4Array(virtualShards)}::smallint[])
      `),

    // Two statements: the second sees every claim that the first has waited for.
    releaseShards: transaction(
      Effect.andThen(
        sql`SELECT shard FROM delivery_shards WHERE owner = ${VIRTUAL_OWNER} ORDER BY shard FOR UPDATE`,
        sql`
          WITH ${asynchronously}
          UPDATE delivery_shards s
          SET owner = NULL, lease_until = NULL
          FROM asynchronous
          WHERE s.owner = ${VIRTUAL_OWNER}
            AND NOT EXISTS (SELECT FROM delivery_leases WHERE owner <> ${owner} AND lease_until > now())
            AND NOT EXISTS (
              SELECT
              FROM delivery_virtual_shards v
              JOIN delivery_leases l ON l.owner = v.owner
              WHERE v.virtual_shard % ${SHARDS}::smallint = s.shard
            )
        `
      )
    ).pipe(Effect.provideService(SqlClient.SqlClient, sql), Effect.asVoid),

    deregister: Effect.asVoid(sql`
      WITH ${asynchronously}
      DELETE FROM delivery_owners o
      USING asynchronous
      WHERE o.owner = ${owner}
    `),

    endLease: Effect.asVoid(sql`
      WITH ${asynchronously}
      DELETE FROM delivery_leases l
      USING asynchronous
      WHERE l.owner = ${owner}
    `)
  }
}
