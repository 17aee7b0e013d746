import { assert, describe, it } from "@effect/vitest"
import { toQueuedDelivery } from "../../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { queueRow } from "../../../support/delivery.ts"

describe("QueuedDelivery", () => {
  it("an overdue delivery that is read late keeps its place before those that became due after it", () => {
    const younger = toQueuedDelivery(queueRow({ seq: 5, wait_ms: -40 }), 1_000)
    const older = toQueuedDelivery(queueRow({ seq: 3, wait_ms: -17_000 }), 2_000)
    assert.isBelow(older.dueAt, younger.dueAt)
  })
})
