import type { Fiber } from "effect"
import { type Health } from "../../../domain/delivery/Cooldown.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import type { Channel } from "./Channel.ts"
import { isRetry, type Item } from "./QueuedDelivery.ts"
import type { OwnedShard } from "./Shards.ts"

/** Items a lane holds in memory; those behind them stay in the store until there is room. */
export const LANE_ITEMS = 64

/** A lane that holds fewer asks for those in the store. */
export const LANE_LOW = 8

/**
 * The deliveries of one destination, as far as they are in memory: the first that are due, in the order of their due times.
 * Everything else about the destination that decides whether it may be sent to now is here too. Plain and synchronous:
 * only the dispatcher touches it.
 */
export class Lane {
  readonly key: string
  readonly shard: number
  /** What it was read under: once the shard is lost, or gained anew, what is known here is not of now. */
  readonly owned: OwnedShard
  readonly org_id: OrgId
  readonly destination_id: string
  readonly channel: Channel
  health: Health
  /** Sorted by `due`, then `seq`. */
  readonly items: Array<Item> = []
  /** Attempts under way. */
  active = 0
  /** Items in memory: waiting, under way, and ended but not yet written. */
  held = 0
  /** Whether the store may have items that are not in memory. All of them are due no earlier than the last one here. */
  more = false
  refilling = false
  /** When its health was stored last, as a moment of `Reads`. */
  stored = -1
  /** Numbers of items that ended and could not be written: as long as the lane is here they are not sent again. */
  readonly abandoned: Array<number> = []
  timer: { readonly at: number; readonly fiber: Fiber.Fiber<void> } | undefined

  constructor(key: string, channel: Channel, owned: OwnedShard, item: Item, health: Health) {
    this.key = key
    this.channel = channel
    this.owned = owned
    this.shard = item.shard
    this.org_id = item.org_id
    this.destination_id = item.destination_id
    this.health = health
  }

  /**
   * Takes an item in. Answers with the item that has no room, the given one or the last: it stays in the store.
   */
  insert(item: Item, room: number): Item | undefined {
    const last = this.items.at(-1)
    if (last !== undefined && comesAfter(item, last)) {
      if (this.more || this.items.length >= room) {
        this.more = true
        return item
      }
      this.items.push(item)
      return undefined
    }
    let index = this.items.length
    for (let before = this.items[index - 1]; before !== undefined && comesAfter(before, item);) {
      index--
      before = this.items[index - 1]
    }
    this.items.splice(index, 0, item)
    if (this.items.length <= room) return undefined
    this.more = true
    return this.items.pop()
  }

  /** The first item that is due, or of those the first that is no retry. Stays in the lane. */
  next(now: number, retries: boolean): Item | undefined {
    for (const item of this.items) {
      if (item.due > now) return undefined
      if (retries || !isRetry(item)) return item
    }
    return undefined
  }

  /**
   * The first item that is due and past its time: a retry, or any where the destination fails. Such a one is sent to one by one, and an
   * attempt for each would keep those behind it waiting past their own time.
   */
  late(now: number): Item | undefined {
    for (const item of this.items) {
      if (item.due > now) return undefined
      if (item.giveUp < now && (isRetry(item) || this.health._tag !== "Healthy")) return item
    }
    return undefined
  }

  remove(item: Item): void {
    const index = this.items.indexOf(item)
    if (index >= 0) this.items.splice(index, 1)
  }
}

const comesAfter = (a: Item, b: Item): boolean => a.due > b.due || (a.due === b.due && a.seq > b.seq)
