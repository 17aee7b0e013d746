import { Latch } from "effect"
import type { Health } from "../../domain/Cooldown.ts"
import type { Channel } from "./Channel.ts"
import { healthOf, type Item, itemOf, type QueueRow } from "./Item.ts"
import { Lane, LANE_ITEMS } from "./Lane.ts"
import type { Reads } from "./Reads.ts"
import type { Shards } from "./Shards.ts"

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
  readonly has: (lane: Lane) => boolean
  /** The lane that took a row in; none where it is known, finished, not ours, or not due for a while. */
  readonly take: (row: QueueRow, now: number) => Lane | undefined
  /** Gives an item its place in its lane, if there is room. */
  readonly admit: (lane: Lane, item: Item) => void
  /** An item is done: it will not come back, unless a read finds it. */
  readonly done: (lane: Lane, item: Item) => void
  /** Lets a lane go. What it held is still in the store. */
  readonly drop: (lane: Lane) => void
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
  /** Lanes whose health is not what is stored, each with its health. */
  readonly unsaved: () => ReadonlyMap<Lane, Health>
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

  const has = (lane: Lane): boolean => lanes.get(lane.key) === lane

  const drop = (lane: Lane): void => {
    for (const item of lane.items) known.delete(item.seq)
    lane.items.length = 0
    if (has(lane)) lanes.delete(lane.key)
    lowLanes.delete(lane)
    unsaved.delete(lane)
    dropped(lane)
  }

  /** Whether the store knows the lane's health, and a read under way cannot bring it back with an older one. */
  const isStored = (lane: Lane): boolean => !unsaved.has(lane) && reads.allBeganAfter(lane.stored)

  const dropIfIdle = (lane: Lane): void => {
    if (lane.held === 0 && !lane.more && !lane.refilling && isStored(lane)) drop(lane)
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
    const begins = health._tag === "Cooling" ? Math.max(health.until, item.due) : item.due
    if (begins - now > horizonMillis) return undefined
    const lane = new Lane(key, channel, item, health)
    lanes.set(key, lane)
    return lane
  }

  return {
    all: () => lanes.values(),
    has,
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
      unsaved.set(lane, health)
    },
    unsaved: () => new Map(unsaved),
    saved: (stored) => {
      const same: Array<Lane> = []
      const moment = reads.moment()
      for (const [lane, health] of stored) {
        if (unsaved.get(lane) !== health) continue
        unsaved.delete(lane)
        lane.stored = moment
        same.push(lane)
      }
      return same
    }
  }
}
