import { Latch } from "effect"
import type { Health } from "../../../domain/delivery/Cooldown.ts"
import type { Channel } from "./Channel.ts"
import { healthOf, type Item, itemOf, type QueueRow } from "./QueuedDelivery.ts"
import { Lane, LANE_ITEMS } from "./Lane.ts"
import type { Reads } from "./Reads.ts"
import type { OwnedShard, Shards } from "./Shards.ts"

/** Items in memory over all lanes; past it each lane holds one. */
const MAX_ITEMS = 100_000

/**
 * The lanes in memory and what they hold: takes in rows that were read, knows which it has, and which lanes need more. A lane that
 * has nothing to do for a while is the store's alone, and costs nothing here: the sweep finds it when its time is near. Plain and
 * synchronous: only the dispatcher touches it.
 */
export interface Lanes {
  /** Those there are. */
  readonly all: () => Iterable<Lane>
  /** Whether a lane is there, and its shard still that under which it came. */
  readonly has: (lane: Lane) => boolean
  /** The lane that took a row in; none where it is known, finished, not ours, or not due for a while. */
  readonly take: (row: QueueRow, now: number) => Lane | undefined
  /** Gives an item its place in its lane, if there is room. */
  readonly admit: (lane: Lane, item: Item) => void
  /** An item is done: it will not come back, unless a read finds it. */
  readonly done: (lane: Lane, item: Item) => void
  /** What became of an item cannot be written: it does not come back while its lane is here. */
  readonly abandon: (lane: Lane, item: Item) => void
  /** Lets a lane go. What it held is still in the store. */
  readonly drop: (lane: Lane) => void
  /** Lets the lanes go whose shards are lost, or were lost and came back. */
  readonly dropLost: () => void
  /** Lets a lane go that holds nothing, if all that is known of it is stored. One that is kept is looked at with each round of the leases. */
  readonly dropIfIdle: (lane: Lane) => void
  /** Lets a lane go that has nothing to do before `until`, if that is far off and all that is known of it is stored. */
  readonly dropUntil: (lane: Lane, until: number, now: number) => boolean
  /** The lane runs low, and the store may have more. */
  readonly askForMore: (lane: Lane) => void
  /** Lanes that ran low since they were last asked for, `limit` at most. */
  readonly takeLow: (limit: number) => ReadonlyArray<Lane>
  /** Open while lanes are low. */
  readonly low: Latch.Latch
  readonly setHealth: (lane: Lane, health: Health) => void
  /** Lanes whose health is not what is stored, each with its health, `limit` at most. Their shards stay here until it is. */
  readonly unsaved: (limit: number) => ReadonlyMap<Lane, Health>
  /** Open while there are such. */
  readonly anyUnsaved: Latch.Latch
  /** These were stored. Answers with those lanes whose health is still the same. */
  readonly saved: (stored: ReadonlyMap<Lane, Health>) => ReadonlyArray<Lane>
}

/** None in memory. `horizonMillis`: how far ahead lanes are kept. `dropped` hears of each lane that is let go. */
export const makeLanes = (
  channels: ReadonlyMap<string, Channel>,
  shards: Pick<Shards, "owned">,
  reads: Reads,
  horizonMillis: number,
  dropped: (lane: Lane) => void
): Lanes => {
  const lanes = new Map<string, Lane>()
  /** Rows in memory, by number: waiting, under way, or not yet written. */
  const known = new Set<number>()
  const lowLanes = new Set<Lane>()
  const unsaved = new Map<Lane, Health>()
  const low = Latch.makeUnsafe(false)
  const anyUnsaved = Latch.makeUnsafe(false)

  const has = (lane: Lane): boolean =>
    lanes.get(lane.key) === lane && shards.owned.get(lane.shard) === lane.owned

  /** Nothing of a lane's health waits to be stored any more. */
  const forgetHealth = (lane: Lane): void => {
    if (!unsaved.delete(lane)) return
    lane.owned.open--
    if (unsaved.size === 0) anyUnsaved.closeUnsafe()
  }

  const drop = (lane: Lane): void => {
    for (const item of lane.items) known.delete(item.seq)
    lane.items.length = 0
    for (const seq of lane.abandoned) known.delete(seq)
    if (lanes.get(lane.key) === lane) lanes.delete(lane.key)
    lowLanes.delete(lane)
    forgetHealth(lane)
    dropped(lane)
  }

  /** Whether the store knows the lane's health, and a read under way cannot bring it back with an older one. */
  const isStored = (lane: Lane): boolean => !unsaved.has(lane) && reads.allBeganAfter(lane.stored)

  const dropIfIdle = (lane: Lane): void => {
    if (lane.held === 0 && !lane.more && !lane.refilling && isStored(lane)) drop(lane)
  }

  const admit = (lane: Lane, item: Item): void => {
    // A lane that cools down needs one, to probe with: what waits behind it is read when it is over.
    const few = lane.health._tag === "CoolingDown" || known.size > MAX_ITEMS
    const out = lane.insert(item, few ? 1 : LANE_ITEMS)
    if (out === undefined) return
    known.delete(out.seq)
    lane.held--
  }

  const laneOf = (row: QueueRow, owned: OwnedShard, item: Item, now: number): Lane | undefined => {
    const key = `${row.org_id}/${row.destination_id}`
    const found = lanes.get(key)
    if (found?.owned === owned) return found
    if (found !== undefined) drop(found)
    const channel = channels.get(row.channel)
    if (channel === undefined) return undefined
    const health = healthOf(row, now)
    const begins = health._tag === "CoolingDown" ? Math.max(health.until, item.due) : item.due
    if (begins - now > horizonMillis) return undefined
    const lane = new Lane(key, channel, owned, item, health)
    lanes.set(key, lane)
    return lane
  }

  return {
    all: () => lanes.values(),
    has,
    take: (row, now) => {
      const owned = shards.owned.get(row.shard)
      if (known.has(row.seq) || owned === undefined || reads.isStale(row.seq, row.attempt)) return undefined
      const item = itemOf(row, now)
      const lane = laneOf(row, owned, item, now)
      if (lane === undefined) return undefined
      known.add(item.seq)
      lane.held++
      admit(lane, item)
      return lane
    },
    admit,
    done: (lane, item) => {
      known.delete(item.seq)
      lane.held--
      dropIfIdle(lane)
    },
    abandon: (lane, item) => {
      if (has(lane)) lane.abandoned.push(item.seq)
      else known.delete(item.seq)
    },
    drop,
    dropLost: () => {
      for (const lane of lanes.values()) if (!has(lane)) drop(lane)
    },
    dropIfIdle,
    dropUntil: (lane, until, now) => {
      if (until - now <= horizonMillis) return false
      if (lane.held > lane.items.length || lane.refilling || !isStored(lane)) return false
      drop(lane)
      return true
    },
    askForMore: (lane) => {
      if (lane.refilling || !lane.more) return
      lane.refilling = true
      lowLanes.add(lane)
      low.openUnsafe()
    },
    takeLow: (limit) => {
      const list: Array<Lane> = []
      for (const lane of lowLanes) {
        if (list.length === limit) break
        lowLanes.delete(lane)
        // Rows that come from now on and find no room set it again.
        lane.more = false
        list.push(lane)
      }
      if (lowLanes.size === 0) low.closeUnsafe()
      return list
    },
    low,
    setHealth: (lane, health) => {
      lane.health = health
      if (!unsaved.has(lane)) lane.owned.open++
      unsaved.set(lane, health)
      anyUnsaved.openUnsafe()
    },
    unsaved: (limit) => {
      const some = new Map<Lane, Health>()
      for (const [lane, health] of unsaved) {
        if (some.size === limit) break
        some.set(lane, health)
      }
      return some
    },
    anyUnsaved,
    saved: (stored) => {
      const same: Array<Lane> = []
      const moment = reads.moment()
      for (const [lane, health] of stored) {
        if (unsaved.get(lane) !== health) continue
        forgetHealth(lane)
        lane.stored = moment
        same.push(lane)
      }
      return same
    }
  }
}
