/**
 * The way in front of the delivery engine: `npm run bench -- accept [test|approval …]`; without a part, both.
 *
 * A test event, and an approval asked by a step, each accepted and delivered to one endpoint on this machine: the processor time of the
 * service and of all PostgreSQL processes until the delivery is recorded, without the receiver's; and at a modest rate, open loop, the time
 * from the request and from its answer to the receipt. `BENCH_BEFORE` names the entry point of an earlier build to measure beside.
 */
import { Schema } from "effect"
import { machine } from "./measure.ts"
import { type Delivering, type EventKind, reportLatency, startDelivering } from "./accept/deliveries.ts"
import { measure, report, warmUp } from "./steps/load.ts"
import { newSteps } from "./steps/requests.ts"
import { tools } from "./steps/seed.ts"
import { MANY, type Side } from "./steps/sides.ts"

const test: EventKind = {
  prepare: async ({ seed }) => {
    const path = `/v1/notification-endpoints/${seed.endpoints[0] ?? ""}/test`
    return () => ({ path, key: seed.agent.secret, body: "" })
  },
  idOf: (_, response) => decodeTest(response).id,
  eventIds: "SELECT delivery_id AS id, event_id FROM deliveries WHERE delivery_id = ANY ($1)"
}

const approval: EventKind = {
  prepare: newSteps(tools.waiting, 200),
  idOf: (_, response) => decodeStep(response).approval_id,
  eventIds:
    "SELECT approval_id AS id, event_id FROM approval_events WHERE approval_id = ANY ($1) AND type = 'approval.requested'"
}

const decodeTest = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ id: Schema.String })))
const decodeStep = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ approval_id: Schema.String }))
)

/** The goal beside the bare handler, which does the same work: its processor time, in percent. */
const GOALS = { processor: 150 }

const runKind = async (
  delivering: Delivering,
  sides: ReadonlyArray<Side>,
  title: string,
  kind: EventKind
) => {
  const load = {
    callers: MANY,
    millis: 1_000,
    rounds: 5,
    // The endpoint's queue limit is far above.
    limit: 1_500,
    prepare: kind.prepare,
    settle: delivering.settle
  }
  report(`${title}, accepted and delivered to one endpoint, 16 callers`, await measure(sides, load), GOALS)
  await reportLatency(title, delivering, sides, kind)
}

const parts: Readonly<Record<string, (delivering: Delivering) => Promise<void>>> = {
  test: (delivering) => runKind(delivering, delivering.services, "A test event", test),
  approval: (delivering) => runKind(delivering, delivering.all, "An approval asked by a step", approval)
}

/** Events of each kind before the first part: until then the service's code is not compiled to its end. */
const WARM_UP = { limit: 3_000, millis: 5_000 }

/** Runs the named parts one after another. */
export const run = async (names: ReadonlyArray<string>): Promise<void> => {
  const unknown = names.find((name) => !Object.hasOwn(parts, name))
  if (unknown !== undefined) {
    throw new Error(`Unknown part ${unknown}. Available: ${Object.keys(parts).join(", ")}`)
  }
  console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on`)
  const delivering = await startDelivering()
  try {
    for (const [sides, { prepare }] of [
      [delivering.services, test],
      [delivering.all, approval]
    ] as const) {
      await warmUp(sides, { prepare, settle: delivering.settle, ...WARM_UP })
    }
    for (const name of names.length === 0 ? Object.keys(parts) : names) await parts[name]?.(delivering)
  } finally {
    await delivering.dispose()
  }
}
