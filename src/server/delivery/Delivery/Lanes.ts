import { Latch } from "effect"
import type { Health } from "../../../domain/delivery/Cooldown.ts"
import type { Channel } from "../Channel.ts"
import { toHealth, type QueuedDelivery, toQueuedDelivery, type QueueRow } from "./QueuedDelivery.ts"
import { Lane, LANE_CAPACITY } from "./Lane.ts"
import type { ReadTracker } from "./ReadTracker.ts"
import type { OwnedShard, Shards } from "./Shards.ts"

const laneKey = (org_id: string, destination_id: string): string => `${org_id}/${destination_id}`

/** Deliveries in memory over all lanes; beyond this, each lane holds one. */
const MAX_LOADED = 100_000

/**
 * The lanes in memory: accepts rows that were read, ignores those it already has, and tracks which lanes need a refill.
 * A lane with nothing to do for a while is dropped and costs no memory; the sweep finds it when its time is near. Plain
 * and synchronous; only the dispatcher uses it.
 */
export interface Lanes {
  /** All lanes in memory. */
  readonly all: () => Iterable<Lane>
  /** How many lanes, and how many deliveries, are in memory. */
  readonly size: () => { readonly lanes: number; readonly deliveries: number }
  /** The lane of a destination, if it is in memory. */
  readonly find: (org_id: string, destination_id: string) => Lane | undefined
  /** Whether the lane is in memory and its shard ownership is still the one it was read under. */
  readonly has: (lane: Lane) => boolean
  /**
   * Returns the lane that accepted the row; undefined if the row is already in memory, recorded, of a shard owned
   * elsewhere or claimed after the read began, or not due for a while. `readBeganAt` is on the process's monotonic clock.
   */
  readonly accept: (row: QueueRow, now: number, readBeganAt: number) => Lane | undefined
  /** Inserts a delivery into its lane if it fits. */
  readonly insert: (lane: Lane, delivery: QueuedDelivery) => void
  /** Unloads a delivery from memory; only a read can bring it back. */
  readonly unload: (lane: Lane, delivery: QueuedDelivery) => void
  /** Marks a delivery whose result cannot be recorded: it is not accepted again while its lane is in memory. */
  readonly abandon: (lane: Lane, delivery: QueuedDelivery) => void
  /** Drops a lane from memory. Its deliveries are still in the database. */
  readonly drop: (lane: Lane) => void
  /** Drops the lanes whose shards were lost, also if the shard has been regained since. */
  readonly dropLost: () => void
  /**
   * Drops a lane that holds nothing and whose health is stored. A lane that is kept is checked again after each
   * rebalancing.
   */
  readonly dropIfIdle: (lane: Lane) => void
  /**
   * Drops a lane that has nothing to do before `until` if that lies beyond the horizon and its health is stored;
   * returns whether it did.
   */
  readonly dropIfIdleUntil: (lane: Lane, until: number, now: number) => boolean
  /** Requests a refill if the database may have more. */
  readonly requestRefill: (lane: Lane) => void
  /** Takes up to `limit` lanes that ran low since the last call. */
  readonly takeLow: (limit: number) => ReadonlyArray<Lane>
  /** Open while lanes are low. */
  readonly hasLow: Latch.Latch
  readonly setHealth: (lane: Lane, health: Health) => void
  /**
   * Returns up to `limit` lanes whose health differs from the stored one, with their health. Their shards stay here
   * until it is stored.
   */
  readonly unsavedHealth: (limit: number) => ReadonlyMap<Lane, Health>
  /** Open while lanes with unsaved health exist. */
  readonly hasUnsavedHealth: Latch.Latch
  /** Confirms that this health was stored; returns the lanes whose health has not changed since. */
  readonly acknowledgeHealth: (stored: ReadonlyMap<Lane, Health>) => ReadonlyArray<Lane>
}

/**
 * Starts with no lanes. `horizonMillis` is how far ahead lanes are kept in memory; `onDrop` is called with each dropped
 * lane.
 */
export const makeLanes = (
  channels: ReadonlyMap<string, Channel>,
  shards: Pick<Shards, "owned">,
  reads: ReadTracker,
  horizonMillis: number,
  onDrop: (lane: Lane) => void
): Lanes => {
  const lanes = new Map<string, Lane>()
  /** Numbers of the rows in memory: waiting, in flight, or not yet recorded. */
  const loadedRows = new Set<number>()
  const lowLanes = new Set<Lane>()
  const unsaved = new Map<Lane, Health>()
  const low = Latch.makeUnsafe(false)
  const anyUnsaved = Latch.makeUnsafe(false)

  const has = (lane: Lane): boolean =>
    lanes.get(lane.key) === lane && shards.owned.get(lane.shard) === lane.owned

  /** Removes a lane from the health that has yet to be stored. */
  const forgetHealth = (lane: Lane): void => {
    if (!unsaved.delete(lane)) return
    lane.owned.unfinished--
    if (unsaved.size === 0) anyUnsaved.closeUnsafe()
  }

  const drop = (lane: Lane): void => {
    for (const delivery of lane.waiting) loadedRows.delete(delivery.seq)
    lane.waiting.length = 0
    for (const seq of lane.abandoned) loadedRows.delete(seq)
    if (lanes.get(lane.key) === lane) lanes.delete(lane.key)
    lowLanes.delete(lane)
    forgetHealth(lane)
    onDrop(lane)
  }

  /** Whether the lane's health is stored, and no read in flight can bring the lane back with older health. */
  const isStored = (lane: Lane): boolean => !unsaved.has(lane) && reads.allBeganAfter(lane.healthSavedAt)

  const dropIfIdle = (lane: Lane): void => {
    if (lane.loaded === 0 && !lane.hasMore && !lane.isRefilling && isStored(lane)) drop(lane)
  }

  const admit = (lane: Lane, delivery: QueuedDelivery): void => {
    // A lane in cooldown needs one delivery to probe with; the rest are read when the cooldown ends.
    const needsOne = lane.health._tag === "CoolingDown" || loadedRows.size > MAX_LOADED
    const evicted = lane.insert(delivery, needsOne ? 1 : LANE_CAPACITY)
    if (evicted === undefined) return
    loadedRows.delete(evicted.seq)
    lane.loaded--
  }

  const requestRefill = (lane: Lane): void => {
    if (lane.isRefilling || !lane.hasMore) return
    lane.isRefilling = true
    lowLanes.add(lane)
    low.openUnsafe()
  }

  const laneFor = (
    row: QueueRow,
    owned: OwnedShard,
    delivery: QueuedDelivery,
    now: number
  ): Lane | undefined => {
    const key = laneKey(row.org_id, row.destination_id)
    const found = lanes.get(key)
    if (found?.owned === owned) return found
    if (found !== undefined) drop(found)
    const channel = channels.get(row.channel)
    if (channel === undefined) return undefined
    const health = toHealth(row, now)
    const startsAt = health._tag === "CoolingDown" ? Math.max(health.until, delivery.dueAt) : delivery.dueAt
    if (startsAt - now > horizonMillis) return undefined
    const lane = new Lane(key, channel, owned, delivery, health)
    lanes.set(key, lane)
    if (health._tag === "CoolingDown" && health.until <= now) {
      // Rows that waited for the end of the cooldown come before this one, and are not in memory.
      lane.hasMore = true
      requestRefill(lane)
    }
    return lane
  }

  return {
    all: () => lanes.values(),
    size: () => ({ lanes: lanes.size, deliveries: loadedRows.size }),
    find: (org_id, destination_id) => lanes.get(laneKey(org_id, destination_id)),
    has,
    accept: (row, now, readBeganAt) => {
      const owned = shards.owned.get(row.shard)
      if (loadedRows.has(row.seq) || owned === undefined || reads.isStale(row.seq, row.attempt))
        return undefined
      // The shard was lost and regained during the read: another owner may have sent the row meanwhile. The sweep that
      // follows a claim reads the remaining rows.
      if (readBeganAt < owned.claimedAt) return undefined
      const delivery = toQueuedDelivery(row, now)
      const lane = laneFor(row, owned, delivery, now)
      if (lane === undefined) return undefined
      loadedRows.add(delivery.seq)
      lane.loaded++
      admit(lane, delivery)
      return lane
    },
    insert: admit,
    unload: (lane, delivery) => {
      loadedRows.delete(delivery.seq)
      lane.loaded--
      dropIfIdle(lane)
    },
    abandon: (lane, delivery) => {
      if (has(lane)) lane.abandoned.push(delivery.seq)
      else loadedRows.delete(delivery.seq)
    },
    drop,
    dropLost: () => {
      for (const lane of lanes.values()) if (!has(lane)) drop(lane)
    },
    dropIfIdle,
    dropIfIdleUntil: (lane, until, now) => {
      if (until - now <= horizonMillis) return false
      if (lane.loaded > lane.waiting.length || lane.isRefilling || !isStored(lane)) return false
      drop(lane)
      return true
    },
    requestRefill,
    takeLow: (limit) => {
      const list: Array<Lane> = []
      for (const lane of lowLanes) {
        if (list.length === limit) break
        lowLanes.delete(lane)
        // Rows that arrive from now on and do not fit set it again.
        lane.hasMore = false
        list.push(lane)
      }
      if (lowLanes.size === 0) low.closeUnsafe()
      return list
    },
    hasLow: low,
    setHealth: (lane, health) => {
      lane.health = health
      if (!unsaved.has(lane)) lane.owned.unfinished++
      unsaved.set(lane, health)
      anyUnsaved.openUnsafe()
    },
    unsavedHealth: (limit) => {
      const batch = new Map<Lane, Health>()
      for (const [lane, health] of unsaved) {
        if (batch.size === limit) break
        batch.set(lane, health)
      }
      return batch
    },
    hasUnsavedHealth: anyUnsaved,
    acknowledgeHealth: (stored) => {
      const unchanged: Array<Lane> = []
      const moment = reads.moment()
      for (const [lane, health] of stored) {
        if (unsaved.get(lane) !== health) continue
        forgetHealth(lane)
        lane.healthSavedAt = moment
        unchanged.push(lane)
      }
      return unchanged
    }
  }
}
