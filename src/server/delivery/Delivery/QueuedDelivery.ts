import { type Health, healthy } from "../../../domain/delivery/Cooldown.ts"
import type { EventId, OrgId } from "../../../domain/Ids.ts"

/** One event for one destination. */
export interface Enqueued {
  readonly org_id: OrgId
  /** The name of a channel that the engine was given; another is a defect. */
  readonly channel: string
  readonly destination_id: string
  readonly event_id: EventId
  readonly label: string
  /** How much it carries, in the channel's own unit. Default 1. */
  readonly size?: number
}

/**
 * A row of the queue as the owner reads it, with what is known of its destination. Times are waits in milliseconds from
 * the reading, by the store's clock: no process's clock is compared with another's.
 */
export interface QueueRow {
  readonly shard: number
  readonly seq: number
  readonly org_id: OrgId
  readonly destination_id: string
  readonly delivery_id: string
  readonly channel: string
  readonly event_id: EventId
  /** Attempts made so far. */
  readonly attempt: number
  /** Attempts that had been made when this round began: 0, or more after a replay. */
  readonly first_attempt: number
  readonly wait_ms: number
  /** Until no attempt may begin any more; null: there is no such time. */
  readonly left_ms: number | null
  readonly consecutive_failures: number | null
  readonly cooldown_round: number | null
  readonly cooldown_ms: number | null
}

/** A delivery that waits in memory. */
export interface Item {
  readonly shard: number
  /** The row's number, its identity: a replay is another row. */
  readonly seq: number
  readonly org_id: OrgId
  readonly destination_id: string
  readonly delivery_id: string
  readonly event_id: EventId
  readonly attempt: number
  readonly first_attempt: number
  /** When it may be sent, in milliseconds on this process's monotonic clock. */
  readonly due: number
  /** After which no further attempt begins, on the same clock; Infinity: there is no such time. */
  readonly giveUp: number
}

/** A row that was read at `now`. */
export const itemOf = (row: QueueRow, now: number): Item => ({
  shard: row.shard,
  seq: row.seq,
  org_id: row.org_id,
  destination_id: row.destination_id,
  delivery_id: row.delivery_id,
  event_id: row.event_id,
  attempt: row.attempt,
  first_attempt: row.first_attempt,
  due: now + Math.max(0, row.wait_ms),
  giveUp: row.left_ms === null ? Infinity : now + row.left_ms
})

/** The health of a row's destination, as it was stored. */
export const healthOf = (row: QueueRow, now: number): Health => {
  const failures = row.consecutive_failures ?? 0
  const round = row.cooldown_round ?? 0
  if (round > 0)
    return { _tag: "CoolingDown", failures, round, until: now + Math.max(0, row.cooldown_ms ?? 0) }
  return failures > 0 ? { _tag: "Healthy", failures } : healthy
}

/** Whether an item's attempt is not its round's first. */
export const isRetry = (item: Item): boolean => item.attempt > item.first_attempt
