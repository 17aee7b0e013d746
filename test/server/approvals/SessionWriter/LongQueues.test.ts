import { assert, describe, it } from "@effect/vitest"
import { EventId, OrgId } from "../../../../src/domain/Ids.ts"
import { makeLongQueues } from "../../../../src/server/approvals/SessionWriter/LongQueues.ts"

const hex = (digit: string) => digit.repeat(32)
const long = OrgId.make(`org_${hex("a")}`)
const short = OrgId.make(`org_${hex("b")}`)

/** Deliveries of one event to `count` destinations. */
const deliveriesOf = (org_id: OrgId, count: number) =>
  Array.from({ length: count }, (_, index) => ({
    org_id,
    channel: "webhook",
    destination_id: `${org_id} ${index}`,
    event_id: EventId.make(`evt_${hex("c")}`),
    label: "approval.requested",
    shard: 0,
    delivery_id: `${org_id} delivery ${index}`,
    size: 1,
    queueLimit: 10_000,
    delayMillis: 0,
    maxElapsedMillis: null
  }))

describe("LongQueues", () => {
  it("the writes of an organization with long queues are not shared for five seconds; those of others are", () => {
    let now = 0
    const queues = makeLongQueues(() => now)
    const deliveries = [...deliveriesOf(long, 3), ...deliveriesOf(short, 3)]
    const counts = new Map(
      deliveries.map(({ delivery_id, org_id }) => [delivery_id, org_id === long ? 9_000 : 1_000])
    )
    queues.note(deliveries, counts)
    assert.isTrue(queues.isPaused(long, deliveriesOf(long, 3)))
    assert.isFalse(queues.isPaused(short, deliveriesOf(short, 3)))
    now = 5_000
    assert.isFalse(queues.isPaused(long, deliveriesOf(long, 3)))
  })

  it("a destination that several deliveries name is counted once", () => {
    const queues = makeLongQueues(() => 0)
    const repeated = [1, 2, 3, 4].flatMap(() => deliveriesOf(long, 1))
    queues.note(repeated, new Map(repeated.map(({ delivery_id }) => [delivery_id, 9_000])))
    assert.isFalse(queues.isPaused(long, deliveriesOf(long, 3)))
  })

  it("writes to one or two destinations are always shared", () => {
    const queues = makeLongQueues(() => 0)
    queues.noteQueueNearLimit(long)
    assert.isTrue(queues.isPaused(long, deliveriesOf(long, 3)))
    assert.isFalse(queues.isPaused(long, deliveriesOf(long, 2)))
  })
})
