import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { int4Array } from "../../store/pgArrays.ts"

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
  /** Live replicas besides this one. */
  readonly peers: number
  /** How many of these come before this replica, in the order of their names: the first ones get the remainder of the division. */
  readonly rank: number
  /** The fencing token of each shard that this replica owns in the database. */
  readonly epochs: ReadonlyMap<number, number>
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

/** "csgo" in ASCII: the first key of the advisory locks that the sessions of the owners hold. The second is the process of the session. */
const SESSION_LOCK = 0x6373676f

/**
 * How long the lease of an owner lasts whose session has ended, in milliseconds. The owner has mostly died. One that has only lost its
 * connection renews its lease by a new one within this time.
 */
const ENDED_SESSION_MILLIS = 1_000

/** The stored leases of the shards, as one replica reads and writes them. */
export interface ShardStore {
  /**
   * Registers this replica as live, renews its lease, removes expired leases, shortens the leases of owners whose session has ended, and
   * counts the live peers. If its own lease was removed, the replica owns nothing any more and gets a new lease.
   */
  readonly heartbeat: (beat: Heartbeat) => Effect.Effect<HeartbeatResult, SqlError.SqlError>
  /** Claims up to `wanted` shards without an owner that has a lease, each under a new epoch. */
  readonly claim: (wanted: number) => Effect.Effect<ReadonlyArray<ClaimedShard>, SqlError.SqlError>
  /** Releases shards, if this replica owns them. */
  readonly release: (shards: ReadonlyArray<number>) => Effect.Effect<void, SqlError.SqlError>
  /** Removes this replica's heartbeat, so that its peers no longer count it. */
  readonly deregister: Effect.Effect<void, SqlError.SqlError>
  /** Removes this replica's lease, and so releases all that it owns. */
  readonly endLease: Effect.Effect<void, SqlError.SqlError>
}

/**
 * The leases of `owner`, a name that no other process ever has. `clustered`: the database is a Citus cluster.
 *
 * Only claims wait for the disk, because the epochs that they raise must not be used again. A crash or a failover of the
 * database can lose the other writes: a lease then ends earlier than its owner assumes, or later than it was released.
 * They neither wait for a busy disk nor for a missing standby: while results wait there, leases do not run out, and a
 * stopping replica hands its shards over.
 */
export const makeShardStore = (sql: SqlClient.SqlClient, owner: string, clustered: boolean): ShardStore => {
  /** The statement does not wait for the disk. */
  const asynchronously = sql`asynchronous AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS setting)`
  /** The second form probes the index once a shard, which a cluster cannot do for all nodes. */
  const watermarks = (shards: ReadonlyArray<number>) =>
    clustered
      ? sql<{ readonly shard: number; readonly watermark: number }>`
          SELECT shard::int AS shard, max(seq)::float8 AS watermark
          FROM delivery_queue
          WHERE shard = ANY(${int4Array(shards)}::smallint[])
          GROUP BY shard
        `
      : sql<{ readonly shard: number; readonly watermark: number }>`
          SELECT
            s.shard::int AS shard,
            coalesce((SELECT max(q.seq) FROM delivery_queue q WHERE q.shard = s.shard), 0)::float8 AS watermark
          FROM unnest(${int4Array(shards)}::smallint[]) AS s (shard)
        `
  /** Whether a heartbeat that began later has renewed the lease `l` before the heartbeat `h`. */
  const hasLaterLease = (leaseMillis: number) => sql`
    l.lease_until BETWEEN h.lease_until AND h.lease_until + ${leaseMillis}::float8 * interval '1 millisecond'`
  const fromNow = (millis: number) => sql`now() + ${millis}::float8 * interval '1 millisecond'`

  return {
    /**
     * One statement, and one row per replica, however many shards it owns. A peer counts as live while its
     * heartbeat is recent; a silent peer keeps its shards until its lease ends but is left no share.
     *
     * A claim takes shards only from an owner whose lease was removed before the claim began. A renewal and a
     * removal lock the same row, so either the renewal finds no lease, or the removal finds it renewed.
     *
     * Of two heartbeats at a time the one that began later counts: the server may still execute one whose connection was
     * lost, after the one that replaced it was answered.
     *
     * PostgreSQL releases the advisory lock of a session when the session ends, so at once when its process was killed.
     */
    heartbeat: ({ draining, heartbeatTimeoutMillis, leaseMillis }) =>
      Effect.map(
        sql<{
          readonly peers: number
          readonly rank: number
          readonly shard: number | null
          readonly epoch: number | null
        }>`
        WITH asynchronous AS MATERIALIZED (
          SELECT
            set_config('synchronous_commit', 'off', true) AS setting,
            pg_try_advisory_lock(${SESSION_LOCK}::int, pg_backend_pid()) AS is_locked,
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
          SET
            lease_until = CASE WHEN ${hasLaterLease(leaseMillis)} THEN l.lease_until ELSE h.lease_until END,
            session_pid = CASE
              WHEN ${hasLaterLease(leaseMillis)} THEN l.session_pid
              WHEN h.is_locked THEN pg_backend_pid()
            END
          FROM asynchronous h
          WHERE l.owner = ${owner}
          RETURNING l.owner
        ), begun AS (
          INSERT INTO delivery_leases AS l (owner, lease_until, session_pid)
          SELECT ${owner}, lease_until, CASE WHEN is_locked THEN pg_backend_pid() END
          FROM asynchronous
          WHERE NOT ${draining}::boolean
            AND NOT EXISTS (SELECT FROM renewed)
          ON CONFLICT (owner) DO UPDATE
          SET lease_until = greatest(l.lease_until, EXCLUDED.lease_until), session_pid = EXCLUDED.session_pid
        ), lost AS (
          UPDATE delivery_shards
          SET owner = NULL
          WHERE owner = ${owner}
            AND NOT EXISTS (SELECT FROM renewed)
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
        ), ended_sessions AS MATERIALIZED (
          SELECT owner, session_pid
          FROM delivery_leases l
          WHERE owner <> ${owner}
            AND session_pid IS NOT NULL
            AND NOT EXISTS (
              SELECT
              FROM pg_locks k
              WHERE k.locktype = 'advisory'
                AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND k.classid = ${SESSION_LOCK}::bigint::oid
                AND k.objid = l.session_pid::bigint::oid
                AND k.objsubid = 2
            )
        ), shortened AS (
          UPDATE delivery_leases
          SET lease_until = ${fromNow(ENDED_SESSION_MILLIS)}
          WHERE owner IN (
            SELECT l.owner
            FROM delivery_leases l
            JOIN ended_sessions e ON e.owner = l.owner AND e.session_pid = l.session_pid
            CROSS JOIN asynchronous h
            WHERE l.lease_until BETWEEN ${fromNow(ENDED_SESSION_MILLIS)} AND h.latest
            FOR UPDATE OF l SKIP LOCKED
          )
          RETURNING owner
        ), deregistered AS (
          DELETE FROM delivery_owners o
          USING shortened s
          WHERE o.owner = s.owner
        ), live AS (
          SELECT count(*)::int AS peers, (count(*) FILTER (WHERE owner < ${owner}))::int AS rank
          FROM delivery_owners
          WHERE lease_until > ${fromNow(Math.max(0, leaseMillis - heartbeatTimeoutMillis))}
            AND lease_until <= ${fromNow(leaseMillis + CLOCK_STEP_MILLIS)}
            AND owner <> ${owner}
        ), mine AS (
          SELECT shard::int AS shard, epoch::float8 AS epoch
          FROM delivery_shards
          WHERE owner = ${owner}
            AND EXISTS (SELECT FROM renewed)
        )
        SELECT l.peers, l.rank, m.shard, m.epoch
        FROM live l
        LEFT JOIN mine m ON true
      `,
        (rows) => {
          const epochs = new Map<number, number>()
          for (const { epoch, shard } of rows) if (shard !== null && epoch !== null) epochs.set(shard, epoch)
          return { peers: rows[0]?.peers ?? 0, rank: rows[0]?.rank ?? 0, epochs }
        }
      ),

    // `seen` is the row as of the statement's beginning, also if `s` was claimed meanwhile and is read again: the lease of
    // that owner may be too new for this statement to see.
    claim: (wanted) =>
      Effect.gen(function* () {
        const claimed = yield* sql<{ readonly shard: number; readonly epoch: number }>`
          WITH free AS MATERIALIZED (
            SELECT s.shard
            FROM delivery_shards s
            JOIN delivery_shards seen ON seen.shard = s.shard AND seen.epoch = s.epoch
            WHERE s.owner IS NULL
              OR NOT EXISTS (SELECT FROM delivery_leases l WHERE l.owner = s.owner)
            ORDER BY s.shard
            LIMIT ${wanted}::int
            FOR NO KEY UPDATE OF s SKIP LOCKED
          )
          UPDATE delivery_shards s
          SET owner = ${owner}, epoch = s.epoch + 1
          FROM free f
          WHERE s.shard = f.shard
          RETURNING s.shard::int AS shard, s.epoch::float8 AS epoch
        `
        if (claimed.length === 0) return []
        const found = new Map(
          (yield* watermarks(claimed.map(({ shard }) => shard))).map((row) => [row.shard, row.watermark])
        )
        return claimed.map((one) => ({ ...one, watermark: found.get(one.shard) ?? 0 }))
      }),

    release: (shards) =>
      Effect.asVoid(sql`
        WITH ${asynchronously}
        UPDATE delivery_shards s
        SET owner = NULL
        FROM asynchronous
        WHERE s.owner = ${owner}
          AND s.shard = ANY(${int4Array(shards)}::smallint[])
      `),

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
