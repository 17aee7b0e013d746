import { type Clock, Effect, Semaphore } from "effect"
import type { SqlError } from "effect/sql"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { ShardStore } from "./ShardStore.ts"

/** The number of shards. Fixed, because queued rows store their shard. */
export const SHARDS = 16

const everyShard = Array.from({ length: SHARDS }, (_, shard) => shard)

/** Maps a destination to its shard: FNV-1a over its id. Never changes, because queued rows were placed by it. */
export const shardOf = (destination_id: string): number => {
  let hash = 0x811c9dc5
  for (let i = 0; i < destination_id.length; i++) {
    hash = Math.imul(hash ^ destination_id.charCodeAt(i), 0x01000193)
  }
  return (hash >>> 0) % SHARDS
}

/** How long a lease lasts, and how much of it must be left. */
export interface LeaseOptions {
  /** The length of a lease, in milliseconds: how long a shard stays with an owner that stopped renewing. */
  readonly leaseMillis: number
  /**
   * No attempt starts when less of the lease is left, in milliseconds. Longer than an attempt of 5 s plus recording its
   * result. An attempt of a channel with a longer deadline stays within the lease as long as it is renewed; otherwise
   * the next owner may send it concurrently.
   */
  readonly marginMillis: number
  /** Interval between renewals and rebalancings, in milliseconds. */
  readonly renewMillis: number
}

/** A dead owner's shards are claimed within 12 s: the lease lasts 10 s, and the other owners poll every 1.5 s. */
export const defaultLease: LeaseOptions = { leaseMillis: 10_000, marginMillis: 6_000, renewMillis: 1_500 }

/**
 * An owner without a heartbeat for this long (and for two of its renewal intervals) is left out of rebalancing. If it
 * counted until its lease ends, the shards it cannot claim would stay unowned until then, and even longer after several
 * simultaneous deaths.
 */
const HEARTBEAT_TIMEOUT_MILLIS = 3_000

/** A shard owned by this replica. */
export interface OwnedShard {
  readonly shard: number
  /** Fencing token: raised by every change of owner, so that the writes of a former owner are rejected. */
  readonly epoch: number
  /**
   * When the lease ends, in milliseconds on the monotonic clock. Counted from before the renewal was sent, so never too
   * late.
   */
  leaseUntil: number
  /**
   * When the claim was answered, in milliseconds on the monotonic clock. A read that began earlier may have seen rows as
   * they were before another owner sent them.
   */
  readonly claimedAt: number
  /** The highest row number that was read. */
  watermark: number
  /**
   * Earlier values of `watermark`. Below `stableWatermark` no new row is expected; `nextStableWatermark` will replace it.
   * `stableSince` is when they last moved, in milliseconds on the monotonic clock.
   */
  stableWatermark: number
  nextStableWatermark: number
  stableSince: number
  /** Attempts in flight or not yet recorded, plus destinations whose health is not yet stored. */
  unfinished: number
  /** Released to another owner as soon as it has no unfinished work. */
  draining: boolean
}

/**
 * Leases of the shards. Every replica renews its leases, counts the other live replicas, and claims or releases shards
 * until each replica has an equal share; a single replica owns them all.
 *
 * ```
 *                     claim: epoch + 1                     more than its share, or shutdown
 *    unowned ────────────────────────────> owned (renewed) ─────────────────> draining
 *     ^  ^                                     │                                │
 *     │  └──── lease expired: no renewal ──────┤                                │
 *     └─────────────────── releaseDrained: nothing unfinished ─────────────────┘
 * ```
 *
 * A lease alone does not exclude a paused owner: a process that was frozen past its lease still runs the statements it
 * had prepared. So each change of owner raises the shard's *epoch*, and every statement that records results or health
 * requires the epoch it read (a fencing token). The writes of a former owner match no row.
 *
 * `effect/cluster` was evaluated first. Its shard locks carry no epoch, so no statement could distinguish a former
 * owner's late write from the current owner's. Its advisory locks depend on a session, which a transaction pooler does
 * not keep, and occupy a connection; a dead process's locks are released only after its session timed out. Here, two
 * small tables suffice.
 */
export interface Shards {
  /** The owned shards, by number; each time a shard is gained it gets a new object. */
  readonly owned: ReadonlyMap<number, OwnedShard>
  /**
   * Whether an attempt of a delivery that was read under this ownership may start: the ownership is current and not
   * draining, and enough of the lease is left.
   */
  readonly canStart: (one: OwnedShard, now: number) => boolean
  /** Whether other replicas own shards or may own them. */
  readonly hasPeers: () => boolean
  /**
   * Renews leases, then claims or releases shards. Returns the released ones. `owned` reflects its changes even if it
   * fails halfway.
   */
  readonly rebalance: Effect.Effect<ReadonlyArray<number>, SqlError.SqlError>
  /**
   * Starts the drain: no attempt starts any more, and each shard is released once it has no unfinished work.
   * Deregisters this replica, so that the others no longer count it and claim its released shards.
   */
  readonly startDraining: Effect.Effect<void, SqlError.SqlError>
  /** Releases the draining shards without unfinished work; returns them. */
  readonly releaseDrained: Effect.Effect<ReadonlyArray<number>, SqlError.SqlError>
  /** Releases everything that this replica still owns; the last step of shutdown. */
  readonly releaseAll: Effect.Effect<void, SqlError.SqlError>
}

/** Starts with no shards. */
export const makeShards = (store: ShardStore, clock: Clock.Clock, options: LeaseOptions): Shards => {
  const { leaseMillis, marginMillis, renewMillis } = options
  const heartbeatTimeoutMillis = Math.max(HEARTBEAT_TIMEOUT_MILLIS, 2 * renewMillis)
  const owned = new Map<number, OwnedShard>()
  // A rebalancing in progress when shutdown begins must not register this replica again after it deregistered.
  const rounds = Semaphore.makeUnsafe(1)
  let peers = 0
  let draining = false

  /** Renews every lease, and drops the shards that have another owner by now. */
  const renew = Effect.gen(function* () {
    const before = monotonicMillis(clock)
    const beat = yield* store.heartbeat({ leaseMillis, heartbeatTimeoutMillis, draining })
    peers = beat.peers
    const epochs = beat.leases
    for (const one of owned.values()) {
      if (epochs.get(one.shard) === one.epoch) one.leaseUntil = before + leaseMillis
      else owned.delete(one.shard)
    }
    // Owned in the database but not in memory: claimed by a statement whose response was lost, or released by one that
    // never ran. These shards are released now, and claimed like any other shard later.
    const unknown = [...epochs.keys()].filter((shard) => !owned.has(shard))
    if (unknown.length > 0) yield* store.release(unknown)
  })

  /** Claims up to `wanted` shards without a live owner. */
  const claim = Effect.fnUntraced(function* (wanted: number) {
    if (wanted <= 0) return
    const before = monotonicMillis(clock)
    const rows = yield* store.claim(wanted, leaseMillis)
    const claimedAt = monotonicMillis(clock)
    const leaseUntil = before + leaseMillis
    for (const row of rows) {
      // No row number is stable yet: rows inserted shortly before the claim may still be uncommitted.
      const unstable = { stableWatermark: 0, nextStableWatermark: row.watermark, stableSince: before }
      owned.set(row.shard, {
        ...row,
        ...unstable,
        claimedAt,
        leaseUntil,
        unfinished: 0,
        draining
      })
    }
  })

  const release = Effect.suspend(() => {
    const shards = [...owned.values()]
      .filter((one) => one.draining && one.unfinished === 0)
      .map((one) => one.shard)
    if (shards.length === 0) return Effect.succeed(shards)
    for (const shard of shards) owned.delete(shard)
    return Effect.as(store.release(shards), shards)
  })

  return {
    owned,
    canStart: (one, now) =>
      owned.get(one.shard) === one && !one.draining && !draining && one.leaseUntil - now >= marginMillis,
    hasPeers: () => peers > 0 || owned.size < SHARDS,
    rebalance: rounds.withPermit(
      Effect.gen(function* () {
        yield* renew
        const share = draining ? 0 : Math.ceil(SHARDS / (peers + 1))
        const staying = [...owned.values()].filter((one) => !one.draining)
        for (const one of staying.slice(share)) one.draining = true
        yield* claim(share - staying.length)
        return yield* release
      })
    ),
    startDraining: Effect.suspend(() => {
      draining = true
      for (const one of owned.values()) one.draining = true
      return rounds.withPermit(store.deregister)
    }),
    releaseDrained: release,
    releaseAll: Effect.andThen(store.release(everyShard), store.deregister)
  }
}
