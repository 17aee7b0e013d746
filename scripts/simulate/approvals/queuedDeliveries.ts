import type { Transaction } from "../core/Store.ts"
import type { ApprovalModel } from "./ApprovalModel.ts"
import type { Given } from "./Given.ts"

/** Deliveries that a statement may queue, as of its beginning. */
export const queuedDeliveries = (model: ApprovalModel, transaction: Transaction, given: Given) => {
  const deliveries = given.rows("delivery_id", "queue_limit").map((row) => ({
    org_id: row.text("org_id"),
    destination_id: row.text("destination_id"),
    delivery_id: row.text("delivery_id"),
    event_id: row.text("event_id"),
    label: row.text("label"),
    limit: row.number("queue_limit")
  }))
  const waiting = new Map<string, number>()
  for (const { destination_id, limit } of deliveries) {
    if (waiting.has(destination_id)) continue
    const count = [...transaction.scan(model.deliveries, destination_id)].length
    // Queues of a run are far from their limits, near which deliveries are counted under a lock.
    if (count * 2 > limit) throw new Error(`The queue of ${destination_id} is too long for the model`)
    waiting.set(destination_id, count)
  }
  const queued = new Map<string, number>()
  return {
    deliveries,
    /** Inserts the deliveries of these events. */
    insert: (isAccepted: (event_id: string) => boolean): void => {
      for (const { limit: _, ...one } of deliveries) {
        if (isAccepted(one.event_id)) queued.set(one.delivery_id, model.insertDelivery(transaction, one).seq)
      }
    },
    /** The row of each delivery. */
    result: deliveries.map(({ delivery_id, destination_id, event_id }) => () => ({
      event_id,
      delivery_id,
      is_full: false,
      waiting: waiting.get(destination_id) ?? 0,
      seq: queued.get(delivery_id) ?? null,
      consecutive_failures: null,
      cooldown_round: null,
      cooldown_ms: null
    }))
  }
}
