import { Latch } from "effect"
import { at, type Health } from "../../domain/Cooldown.ts"
import type { Channel } from "./Channel.ts"
import { healthOf, type Item, itemOf, type QueueRow } from "./Item.ts"
import { Lane, LANE_ITEMS } from "./Lane.ts"
import type { Reads } from "./Reads.ts"
import type { Shards } from "./Shards.ts"

/** Items in memory over all lanes; past it each lane holds one. */
const MAX_ITEMS = 100_000

/** Lanes in memory; past it those that cool down are let go, and found again by the sweep. */
const MAX_LANES = 20_000

/**
 * The lanes in memory and what they hold: takes in rows that were read, knows which it has, and which lanes need more. Plain and
 * synchronous: only the dispatcher touches it.
 */
export interface Lanes {
  /** Those there are. */
  readonly all: () => Iterable<Lane>
  readonly has: (lane: Lane) => boolean
  /** Whether there are so many that one that cools down is better let go. */
  readonly crowded: () => boolean
  /** The lane that took a row in; none where it is known, finished, or not ours. */
  readonly take: (row: QueueRow, now: number) => Lane | undefined
  /** Gives an item its place in its lane, if there is room. */
  readonly admit: (lane: Lane, item: Item) => void
  /** An item is done: it will not come back, unless a read finds it. */
  readonly done: (lane: Lane, item: Item) => void
  /** Lets a lane go. What it held is still in the store. */
  readonly drop: (lane: Lane) => void
  readonly dropIfIdle: (lane: Lane) => void
  /** The lane runs low, and the store may have more. */
  readonly askForMore: (lane: Lane) => void
  /** Lanes that ran low since they were last asked for, `limit` at most. */
  readonly takeLow: (limit: number) => ReadonlyArray<Lane>
  /** Open while lanes are low. */
  readonly low: Latch.Latch
  readonly setHealth: (lane: Lane, health: Health) => void
  /** Lanes whose health changed since they were last asked for. */
  readonly takeUnsaved: () => ReadonlyArray<Lane>
}

/** None in memory. `dropped` hears of each lane that is let go. */
export const makeLanes = (
  channels: ReadonlyMap<string, Channel>,
  shards: Shards,
  reads: Reads,
  dropped: (lane: Lane) => void
): Lanes => {
  const lanes = new Map<string, Lane>()
  /** Rows in memory, by number: waiting, under way, or not yet written. */
  const known = new Set<number>()
  const lowLanes = new Set<Lane>()
  const unsaved = new Set<Lane>()
  const low = Latch.makeUnsafe(false)

  const has = (lane: Lane): boolean => lanes.get(lane.key) === lane

  const drop = (lane: Lane): void => {
    for (const item of lane.items) known.delete(item.seq)
    lane.items.length = 0
    if (has(lane)) lanes.delete(lane.key)
    lowLanes.delete(lane)
    dropped(lane)
  }

  const dropIfIdle = (lane: Lane): void => {
    if (lane.held === 0 && !lane.more && !lane.refilling && !lane.unsaved) drop(lane)
  }

  const admit = (lane: Lane, item: Item): void => {
    // A lane that cools down needs one, to probe with: what waits behind it is read when it is over.
    const few = lane.health._tag === "Cooling" || known.size > MAX_ITEMS
    const out = lane.insert(item, few ? 1 : LANE_ITEMS)
    if (out === undefined) return
    known.delete(out.seq)
    lane.held--
  }

  const laneOf = (row: QueueRow, item: Item, now: number): Lane | undefined => {
    const key = `${row.org_id}/${row.destination_id}`
    const found = lanes.get(key)
    if (found !== undefined) return found
    const channel = channels.get(row.channel)
    if (channel === undefined) return undefined
    const health = healthOf(row, now)
    if (lanes.size >= MAX_LANES && at(health, now)._tag === "Cooling") return undefined
    const lane = new Lane(key, channel, item, health)
    lanes.set(key, lane)
    return lane
  }

  return {
    all: () => lanes.values(),
    has,
    crowded: () => lanes.size > MAX_LANES,
    take: (row, now) => {
      if (known.has(row.seq) || !shards.owned.has(row.shard) || reads.isStale(row.seq, row.attempt))
        return undefined
      const item = itemOf(row, now)
      const lane = laneOf(row, item, now)
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
    drop,
    dropIfIdle,
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
      lane.unsaved = true
      unsaved.add(lane)
    },
    takeUnsaved: () => {
      const list = [...unsaved]
      unsaved.clear()
      for (const lane of list) lane.unsaved = false
      return list
    }
  }
}
