import type { Fiber } from "effect"
import { type Health } from "../../../domain/delivery/Cooldown.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import type { Channel } from "../Channel.ts"
import { idleLane, type LaneEvent, type LaneState, transition } from "./LaneState.ts"
import type { QueuedDelivery } from "./QueuedDelivery.ts"
import type { OwnedShard } from "./Shards.ts"

/** Waiting deliveries of one lane held in memory; the rest stay in the database until the lane is refilled. */
export const LANE_CAPACITY = 64

/** A lane with fewer waiting deliveries requests a refill. */
export const LANE_LOW_WATERMARK = 8

/**
 * The part of a destination's queue (a FIFO by due time) that is in memory: the deliveries that are due first. Its `state` and its
 * health decide whether the destination may be sent to now (`nextStep`). Plain and synchronous; only the dispatcher uses it.
 */
export class Lane {
  readonly key: string
  /** The shard of the queue. */
  readonly shard: number
  /** The shard ownership under which the lane was read. Once the shard is lost, or lost and regained, the lane is stale. */
  readonly owned: OwnedShard
  readonly org_id: OrgId
  readonly destination_id: string
  readonly channel: Channel
  health: Health
  /** The error of the last attempt that counted as a failure of the destination. */
  lastError: string | undefined
  /** Whether the log has the first cooldown since the last success. */
  isCooldownLogged: boolean
  /** Sorted by `dueAt`, then `seq`. */
  readonly waiting: Array<QueuedDelivery> = []
  state: LaneState = idleLane
  /** Deliveries in memory: waiting, in flight, or finished but not yet recorded. */
  loaded = 0
  /** Whether the database may have deliveries that are not in memory, all due no earlier than the last one here. */
  hasMore = false
  isRefilling = false
  /** The `ReadTracker` moment at which its health was last stored. */
  healthSavedAt = -1
  /** Row numbers of results that could not be recorded. They are not sent again while the lane is in memory. */
  readonly abandoned: Array<number> = []
  timer: { readonly at: number; readonly fiber: Fiber.Fiber<void> } | undefined

  constructor(key: string, channel: Channel, owned: OwnedShard, delivery: QueuedDelivery, health: Health) {
    this.key = key
    this.channel = channel
    this.owned = owned
    this.shard = delivery.shard
    this.org_id = delivery.org_id
    this.destination_id = delivery.destination_id
    this.health = health
    this.isCooldownLogged = health._tag !== "Healthy"
  }

  /**
   * Inserts a delivery in order. Returns the delivery that does not fit, the given one or the last, which stays in the
   * database.
   */
  insert(delivery: QueuedDelivery, capacity: number): QueuedDelivery | undefined {
    const last = this.waiting.at(-1)
    if (last !== undefined && comesAfter(delivery, last)) {
      if (this.hasMore || this.waiting.length >= capacity) {
        this.hasMore = true
        return delivery
      }
      this.waiting.push(delivery)
      return undefined
    }
    let index = this.waiting.length
    for (let before = this.waiting[index - 1]; before !== undefined && comesAfter(before, delivery);) {
      index--
      before = this.waiting[index - 1]
    }
    this.waiting.splice(index, 0, delivery)
    if (this.waiting.length <= capacity) return undefined
    this.hasMore = true
    return this.waiting.pop()
  }

  /** Makes the waiting deliveries due at `now`, in the order of their rows. */
  makeDue(now: number): void {
    const due = this.waiting.map((one) => (one.dueAt > now ? { ...one, dueAt: now } : one))
    this.waiting.splice(0, this.waiting.length, ...due.toSorted((a, b) => (comesAfter(a, b) ? 1 : -1)))
  }

  apply(event: LaneEvent): void {
    this.state = transition(this.state, event)
  }

  remove(delivery: QueuedDelivery): void {
    const index = this.waiting.indexOf(delivery)
    if (index >= 0) this.waiting.splice(index, 1)
  }
}

const comesAfter = (a: QueuedDelivery, b: QueuedDelivery): boolean =>
  a.dueAt > b.dueAt || (a.dueAt === b.dueAt && a.seq > b.seq)
