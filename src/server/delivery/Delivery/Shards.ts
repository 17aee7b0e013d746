import { type Clock, Effect, Semaphore } from "effect"
import { SecureRandom } from "effect/crypto"
import type { SqlClient, SqlError } from "effect/sql"
import { int4Array } from "../../store/pgArrays.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"

/** How many shards there are: fixed, since queued rows carry theirs. */
export const SHARDS = 16

const everyShard = Array.from({ length: SHARDS }, (_, shard) => shard)

/** The shard of a destination: FNV-1a over its id. Never changed: rows that are queued were placed by it. */
export const shardOf = (destination_id: string): number => {
  let hash = 0x811c9dc5
  for (let i = 0; i < destination_id.length; i++) {
    hash = Math.imul(hash ^ destination_id.charCodeAt(i), 0x01000193)
  }
  return (hash >>> 0) % SHARDS
}

/** How long ownership lasts, and how much of it must be left. */
export interface LeaseOptions {
  /** How long a shard stays with an owner that is not heard of. */
  readonly leaseMillis: number
  /**
   * Nothing is started when less of the lease is left: longer than a sending of 5 s and its writing down. One that its channel gives
   * longer ends within its lease as long as that is renewed; where it is not, the next owner may send it again meanwhile.
   */
  readonly marginMillis: number
  /** How often leases are renewed, and shards shared out. */
  readonly renewMillis: number
}

/** Taken over within 12 s: 10 s of lease, and the other owners look every 1.5 s. */
export const defaultLease: LeaseOptions = { leaseMillis: 10_000, marginMillis: 6_000, renewMillis: 1_500 }

/**
 * An owner that was not heard of for so long, and for two of its renewals, no longer counts when shards are shared out. Were it counted
 * until its lease ends, what it cannot take would stay free until then, after several deaths at once even longer.
 */
const SILENT_MILLIS = 3_000

/** A shard that this process owns. */
export interface OwnedShard {
  readonly shard: number
  /** Raised by every change of owner: what a former owner writes is refused by it. */
  readonly epoch: number
  /** When the lease ends, in milliseconds on the monotonic clock, counted from before it was asked for. */
  validUntil: number
  /** The newest row that was read. */
  mark: number
  /** What `mark` was a while ago, and lately, and when that was noted, in milliseconds on the monotonic clock. */
  settled: number
  settling: number
  settledAt: number
  /** Attempts under way or not yet written, and destinations whose health is not yet written. */
  open: number
  /** It goes to another owner as soon as nothing is open. */
  leaving: boolean
}

/**
 * Who owns which shard. Every process renews its leases, counts the others that live, and takes or leaves shards until
 * each has its share; a process that is alone has all.
 *
 * `effect/cluster` was looked at first. Its locks on shards carry no epoch, so nothing in a statement could tell a former
 * owner's late write from the present owner's; with advisory locks they depend on a session that a transaction pooler does
 * not keep, and hold a connection; and what a dead process held is free only once its session has idled out. Two small tables
 * give what is needed here.
 */
export interface Shards {
  /** The shards that are here, by number: another object for each time that one was gained. */
  readonly owned: ReadonlyMap<number, OwnedShard>
  /** Whether an attempt may start that was read under this ownership: it is the present one and stays, and enough of its lease is left. */
  readonly mayStart: (one: OwnedShard, now: number) => boolean
  /** Whether other processes own shards, or may. */
  readonly shared: () => boolean
  /** Renews, then takes or leaves shards; answers with those released. What it changed holds also where it fails on the way. */
  readonly share: Effect.Effect<ReadonlyArray<number>, SqlError.SqlError>
  /**
   * From now on nothing starts, and every shard leaves as soon as nothing of it is open. Once it is done the others count this process
   * no more, and each may take what comes free.
   */
  readonly leaveAll: Effect.Effect<void, SqlError.SqlError>
  /** Gives up the shards that leave and have nothing open; answers with them. */
  readonly release: Effect.Effect<ReadonlyArray<number>, SqlError.SqlError>
  /** The last word of a process that stops: what it still holds is free at once. */
  readonly resign: Effect.Effect<void, SqlError.SqlError>
}

/** The shards of one process, none owned yet. */
export const makeShards = (sql: SqlClient.SqlClient, clock: Clock.Clock, options: LeaseOptions): Shards => {
  const { leaseMillis, marginMillis, renewMillis } = options
  const silentMillis = Math.max(SILENT_MILLIS, 2 * renewMillis)
  const owner = SecureRandom.uuidV7Unsafe()
  const owned = new Map<number, OwnedShard>()
  // A round that was under way when the stop began must not name this process among the living once it has taken its name out.
  const rounds = Semaphore.makeUnsafe(1)
  let others = 0
  let stopping = false

  const free = (shards: ReadonlyArray<number>) => sql`
    UPDATE delivery_shards
    SET owner = NULL, lease_until = NULL
    WHERE owner = ${owner}
      AND shard = ANY(${int4Array(shards)}::smallint[])
  `

  const takeNameOut = sql`DELETE FROM delivery_owners WHERE owner = ${owner}`

  /**
   * Says that this process lives, renews its leases and counts the others, in one statement that does not wait for the disk: a store
   * that has much to write must not let leases run out. Should it crash and forget a renewal, a lease ends earlier than its owner
   * believes, and whoever takes the shard then has a higher epoch. Others count that were heard of lately: one that fell silent keeps
   * what it has until its lease ends, and is left nothing else.
   */
  const sayAlive = Effect.suspend(
    () => sql<{ readonly others: number; readonly shard: number | null; readonly epoch: number | null }>`
      WITH hurried AS MATERIALIZED (
        SELECT
          set_config('synchronous_commit', 'off', true) AS setting,
          now() + ${leaseMillis}::float8 * interval '1 millisecond' AS lease_until
      ), alive AS (
        INSERT INTO delivery_owners (owner, lease_until)
        SELECT ${owner}, lease_until
        FROM hurried
        WHERE NOT ${stopping}::boolean
        ON CONFLICT (owner) DO UPDATE SET lease_until = EXCLUDED.lease_until
      ), renewed AS (
        UPDATE delivery_shards s
        SET lease_until = h.lease_until
        FROM hurried h
        WHERE s.owner = ${owner}
        RETURNING s.shard::int AS shard, s.epoch::float8 AS epoch
      ), living AS (
        SELECT count(*)::int AS others
        FROM delivery_owners
        WHERE lease_until > now() + ${Math.max(0, leaseMillis - silentMillis)}::float8 * interval '1 millisecond'
          AND owner <> ${owner}
      )
      SELECT l.others, r.shard, r.epoch
      FROM living l
      LEFT JOIN renewed r ON true
    `
  )

  /** Renews every lease, and forgets the shards that are another's by now. */
  const renew = Effect.gen(function* () {
    const before = monotonicMillis(clock)
    const rows = yield* sayAlive
    others = rows[0]?.others ?? 0
    const epochs = new Map<number, number | null>()
    for (const { epoch, shard } of rows) if (shard !== null) epochs.set(shard, epoch)
    for (const one of owned.values()) {
      if (epochs.get(one.shard) === one.epoch) one.validUntil = before + leaseMillis
      else owned.delete(one.shard)
    }
    // Claimed by a statement whose answer was lost, or given up by one that was not carried out: free, to be claimed as any other.
    const unknown = [...epochs.keys()].filter((shard) => !owned.has(shard))
    if (unknown.length > 0) yield* free(unknown)
  })

  /** Takes up to `wanted` shards that have no living owner. */
  const claim = Effect.fnUntraced(function* (wanted: number) {
    if (wanted <= 0) return
    const before = monotonicMillis(clock)
    const rows = yield* sql<{ readonly shard: number; readonly epoch: number; readonly mark: number }>`
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
        ORDER BY shard
        LIMIT ${wanted}::int
        FOR UPDATE SKIP LOCKED
      )
      RETURNING
        s.shard::int AS shard,
        s.epoch::float8 AS epoch,
        coalesce((SELECT max(q.seq) FROM delivery_queue q WHERE q.shard = s.shard), 0)::float8 AS mark
    `
    const validUntil = before + leaseMillis
    for (const row of rows) {
      // Nothing is settled yet: what was written shortly before may still be on its way to its commit.
      const unsettled = { settled: 0, settling: row.mark, settledAt: before }
      owned.set(row.shard, { ...row, ...unsettled, validUntil, open: 0, leaving: stopping })
    }
  })

  const release = Effect.suspend(() => {
    const shards = [...owned.values()].filter((one) => one.leaving && one.open === 0).map((one) => one.shard)
    if (shards.length === 0) return Effect.succeed(shards)
    for (const shard of shards) owned.delete(shard)
    return Effect.as(free(shards), shards)
  })

  return {
    owned,
    mayStart: (one, now) =>
      owned.get(one.shard) === one && !one.leaving && !stopping && one.validUntil - now >= marginMillis,
    shared: () => others > 0 || owned.size < SHARDS,
    share: rounds.withPermit(
      Effect.gen(function* () {
        yield* renew
        const share = stopping ? 0 : Math.ceil(SHARDS / (others + 1))
        const staying = [...owned.values()].filter((one) => !one.leaving)
        for (const one of staying.slice(share)) one.leaving = true
        yield* claim(share - staying.length)
        return yield* release
      })
    ),
    leaveAll: Effect.suspend(() => {
      stopping = true
      for (const one of owned.values()) one.leaving = true
      return rounds.withPermit(Effect.asVoid(takeNameOut))
    }),
    release,
    resign: Effect.andThen(free(everyShard), Effect.asVoid(takeNameOut))
  }
}
