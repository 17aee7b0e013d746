import { type Health, healthy } from "../../../domain/delivery/Cooldown.ts"
import type { EventId, OrgId } from "../../../domain/Ids.ts"

/** One event for one destination, to be queued. */
export interface NewDelivery {
  readonly org_id: OrgId
  /** The name of a channel of the engine; an unknown name is a defect. */
  readonly channel: string
  readonly destination_id: string
  readonly event_id: EventId
  readonly label: string
  /** How much it carries, in the channel's own unit. Default 1. */
  readonly size?: number
}

/**
 * A queue row as the shard's owner reads it, with its destination's health. Times are waits in milliseconds from the
 * moment of reading, computed by the database's clock, so that clocks of different replicas are never compared.
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
  /** Attempts made before this round began: 0, or more after a replay. */
  readonly first_attempt: number
  readonly wait_ms: number
  /** Time left in which an attempt may begin; null means no limit. */
  readonly left_ms: number | null
  readonly consecutive_failures: number | null
  readonly cooldown_round: number | null
  readonly cooldown_ms: number | null
}

/** A delivery waiting in memory. */
export interface QueuedDelivery {
  readonly shard: number
  /** The number of the row, which identifies it: a replay is another row. */
  readonly seq: number
  readonly org_id: OrgId
  readonly destination_id: string
  readonly delivery_id: string
  readonly event_id: EventId
  readonly attempt: number
  readonly first_attempt: number
  /**
   * When it may be sent, in milliseconds on this process's monotonic clock. In the past for an overdue delivery, so that
   * it keeps its place before deliveries that became due later, whichever was read first.
   */
  readonly dueAt: number
  /** After this time no attempt begins, on the same clock; Infinity means no limit. */
  readonly expiresAt: number
}

/** Converts a row that was read at `now`. */
export const toQueuedDelivery = (row: QueueRow, now: number): QueuedDelivery => ({
  shard: row.shard,
  seq: row.seq,
  org_id: row.org_id,
  destination_id: row.destination_id,
  delivery_id: row.delivery_id,
  event_id: row.event_id,
  attempt: row.attempt,
  first_attempt: row.first_attempt,
  dueAt: now + row.wait_ms,
  expiresAt: row.left_ms === null ? Infinity : now + row.left_ms
})

/** The stored health of a row's destination. */
export const toHealth = (row: QueueRow, now: number): Health => {
  const failures = row.consecutive_failures ?? 0
  const round = row.cooldown_round ?? 0
  if (round > 0)
    return { _tag: "CoolingDown", failures, round, until: now + Math.max(0, row.cooldown_ms ?? 0) }
  return failures > 0 ? { _tag: "Healthy", failures } : healthy
}

/** Whether the next attempt is not the first of its round. */
export const isRetry = (delivery: QueuedDelivery): boolean => delivery.attempt > delivery.first_attempt
