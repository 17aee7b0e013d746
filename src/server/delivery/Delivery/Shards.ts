import { type Clock, Effect, Semaphore } from "effect"
import type { SqlError } from "effect/sql"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import { allShards, SHARDS } from "./shardOf.ts"
import type { ShardStore } from "./ShardStore.ts"

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

/**
 * A killed owner's shards are claimed within 3.5 s: its lease ends one second after a renewal of another owner has found that its session
 * has ended, and the next renewal claims them. Shards of a frozen owner are claimed within 12 s: the lease lasts 10 s.
 */
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
  /** Attempts in flight or not yet recorded, plus destinations whose health is not yet stored. */
  unfinished: number
  /** Released to another owner as soon as it has no unfinished work. No row of it is read any more. */
  draining: boolean
  /** The highest row number that was read. */
  watermark: number
  /**
   * Earlier values of `watermark`. Below `stableWatermark` no new row is expected; `nextStableWatermark` will replace it.
   * `stableSince` is when they last moved, in milliseconds on the monotonic clock.
   */
  stableWatermark: number
  nextStableWatermark: number
  stableSince: number
}

/**
 * Leases of the shards. Every replica renews its lease, counts the other live replicas, and claims or releases
 * shards until each replica has an equal share; a single replica owns them all. One lease covers all that a
 * replica owns.
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
 * owner's late write from the current owner's. Here, an advisory lock only shows that a session has ended, and small tables have
 * the rest: without sessions of their own, as through a transaction pooler, replicas still have leases.
 */
export interface Shards {
  /** The owned shards, by number; each time one is gained it gets a new object. */
  readonly owned: ReadonlyMap<number, OwnedShard>
  /**
   * Whether an attempt of a delivery that was read under this ownership may start: the ownership is current and not
   * draining, and enough of the lease is left.
   */
  readonly canStart: (one: OwnedShard, now: number) => boolean
  /** Starts no attempt until the leases are renewed: the other replicas may shorten them meanwhile. */
  readonly suspend: () => void
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
  /** When the lease ends, in milliseconds on the monotonic clock. */
  let leaseUntil = Number.NEGATIVE_INFINITY

  /** Renews the lease, and drops the shards that have another owner by now. */
  const renew = Effect.gen(function* () {
    const before = monotonicMillis(clock)
    const beat = yield* store.heartbeat({ leaseMillis, heartbeatTimeoutMillis, draining })
    peers = beat.peers
    leaseUntil = before + leaseMillis
    for (const one of owned.values()) {
      if (beat.epochs.get(one.shard) === one.epoch) one.leaseUntil = leaseUntil
      else owned.delete(one.shard)
    }
    // Owned in the database but not in memory: claimed by a statement whose response was lost, or released by one that
    // never ran. They are released now, and claimed like any other later.
    const unknown = [...beat.epochs.keys()].filter((shard) => !owned.has(shard))
    if (unknown.length > 0) yield* store.release(unknown)
    return beat
  })

  /** Claims up to `wanted` shards without a live owner. */
  const claim = Effect.fnUntraced(function* (wanted: number) {
    if (wanted <= 0) return
    const before = monotonicMillis(clock)
    const rows = yield* store.claim(wanted)
    const claimedAt = monotonicMillis(clock)
    for (const { epoch, shard, watermark } of rows) {
      owned.set(shard, {
        shard,
        epoch,
        claimedAt,
        leaseUntil,
        unfinished: 0,
        draining,
        watermark,
        // No row number is stable yet: rows inserted shortly before the claim may still be uncommitted.
        stableWatermark: 0,
        nextStableWatermark: watermark,
        stableSince: before
      })
    }
  })

  const release = Effect.gen(function* () {
    const released = [...owned.values()]
      .filter((one) => one.draining && one.unfinished === 0)
      .map((one) => one.shard)
    if (released.length === 0) return released
    for (const shard of released) owned.delete(shard)
    yield* store.release(released)
    return released
  })

  return {
    owned,
    canStart: (one, now) =>
      owned.get(one.shard) === one && !one.draining && !draining && one.leaseUntil - now >= marginMillis,
    suspend: () => {
      for (const one of owned.values()) one.leaseUntil = Number.NEGATIVE_INFINITY
    },
    hasPeers: () => peers > 0 || owned.size < SHARDS,
    rebalance: rounds.withPermit(
      Effect.gen(function* () {
        const beat = yield* renew
        const replicas = beat.peers + 1
        // The replicas that come first in the order of their names get one more, if they do not divide evenly.
        const share = draining ? 0 : Math.floor(SHARDS / replicas) + (beat.rank < SHARDS % replicas ? 1 : 0)
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
    releaseAll: store
      .release(allShards)
      .pipe(Effect.andThen(store.endLease), Effect.andThen(store.deregister))
  }
}
