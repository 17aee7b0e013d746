/** The cases of the `steps` benchmark, by name. */
import { alternate, atMost, line, median, peakMegabytes, residentMegabytes } from "../measure.ts"
import { reportLatency, startDelivering } from "../accept/deliveries.ts"
import { CASE_WARM_UP, type Load, measure, report, warmUp, writeTransactions } from "./load.ts"
import {
  decision,
  forInserted,
  forRequested,
  mixedRequests,
  newRuns,
  newSteps,
  outcomes,
  PREPARED,
  repeated
} from "./requests.ts"
import { type Tool, tools } from "./seed.ts"
import { MANY, preparerPids, type Side, type Sides } from "./sides.ts"

const concurrent = { callers: MANY, millis: 1_000, rounds: 5 }
const alone = { ...concurrent, callers: 1 }

/** Empties the queue, so that no round starts with the deliveries of the one before. */
const withEmptyQueue =
  (prepare: Load["prepare"]): Load["prepare"] =>
  async (side) => {
    await side.sql.query("DELETE FROM delivery_queue")
    return await prepare(side)
  }

const allowed = async ({ all }: Sides) => {
  const goals = { processor: 150, rate: 50 }
  const many = (tool: Tool, sessions: number) =>
    measure(all, { ...concurrent, prepare: newSteps(tool, sessions) })
  report("A step allowed by a rule, 16 callers, 200 sessions", await many(tools.allowed, 200), goals)
  report("A step rejected by a rule, 16 callers, 200 sessions", await many(tools.rejected, 200), goals)
  report("A step allowed by a rule, 16 callers, one session", await many(tools.allowed, 1), {
    ...goals,
    processor: 100
  })
  report(
    "A step allowed by a rule, one caller",
    await measure(all, { ...alone, prepare: newSteps(tools.allowed, 200) }),
    { processor: 350 }
  )
}

/** Steps with and without a claim, on this service alone: the other sides have no claims. */
const claimed = async ({ all: [side] }: Sides) => {
  if (side === undefined) throw new Error("This service must be the first side")
  const both = [
    { ...side, name: "with a claim" },
    { ...side, name: "without a claim" }
  ]
  report(
    "A step allowed by a rule, with and without a claim, 16 callers, 200 sessions",
    await measure(both, {
      ...concurrent,
      millis: 2_000,
      rounds: 11,
      prepare: (of) => newSteps(tools.allowed, 200, of === both[0])(of)
    }),
    { processor: 115 }
  )
  report(
    "The outcome of a step, with and without a claim, 16 callers, 200 sessions",
    await measure(both, {
      ...concurrent,
      rounds: 9,
      limit: PREPARED,
      prepare: (of) => outcomes(of === both[0])(of)
    }),
    { processor: 115 }
  )
}

/** Steps of a rule with three budgets and of one without, on this service alone: the other sides have no budgets. */
const budgets = async ({ all: [side] }: Sides) => {
  if (side === undefined) throw new Error("This service must be the first side")
  const both = [
    { ...side, name: "with three budgets" },
    { ...side, name: "without a budget" }
  ]
  report(
    "A step allowed by a rule, with three budgets and without, 16 callers, 200 sessions",
    await measure(both, {
      ...concurrent,
      rounds: 25,
      prepare: (of) => newSteps(of === both[0] ? tools.budgeted : tools.allowed, 200)(of)
    }),
    { processor: 120 }
  )
}

const queuedOnly = "3 endpoints, in cooldown: deliveries are queued and not sent"

const waiting = async ({ all }: Sides) =>
  report(
    `A step that waits for a person, 16 callers, 200 sessions; ${queuedOnly}`,
    await measure(all, {
      ...concurrent,
      limit: PREPARED,
      prepare: withEmptyQueue(newSteps(tools.waiting, 200))
    }),
    { processor: 150, rate: 50 }
  )

const decide = async ({ all }: Sides) => {
  report(
    `A decision, 16 callers, 200 sessions; ${queuedOnly}`,
    await measure(all, {
      ...concurrent,
      limit: PREPARED,
      prepare: forRequested("pending", decision)
    }),
    { processor: 100, rate: 75 }
  )
  report(
    `A decision of an approval that another replica has requested, 16 callers, 200 sessions; ${queuedOnly}`,
    await measure(all, {
      ...concurrent,
      limit: PREPARED,
      prepare: withEmptyQueue(forInserted("pending", decision))
    })
  )
  const delivering = await startDelivering()
  try {
    const prepare = forInserted("pending", decision)
    await warmUp(delivering.services, { prepare, settle: delivering.settle, ...CASE_WARM_UP })
    await reportLatency(
      "A decision and its event, one endpoint on this machine",
      delivering,
      delivering.services,
      {
        prepare,
        idOf: ({ path }) => path.split("/")[3] ?? "",
        eventIds:
          "SELECT approval_id AS id, event_id FROM approval_events WHERE approval_id = ANY ($1) AND type = 'approval.approved'"
      }
    )
  } finally {
    await delivering.dispose()
  }
}

const resume = async ({ all }: Sides) => {
  const load = (state: "approved" | "answered") =>
    measure(all, { ...concurrent, limit: PREPARED, prepare: forRequested(state, repeated) })
  report(
    "A decided step is requested again, the first time after its decision, 16 callers (the bare handler needs two round trips)",
    await load("approved"),
    { processor: 150 }
  )
  report("A decided step is requested again, further times, 16 callers", await load("answered"), {
    processor: 200
  })
}

const logRun = async ({ all }: Sides) =>
  report(
    "A run is logged with its answer, 16 callers",
    await measure(all, { ...concurrent, prepare: newRuns }),
    { processor: 130, rate: 75 }
  )

/** Concurrent steps of a burst, and bursts per side. */
const BURST = 25
const BURSTS = 20

/**
 * The time of a burst by that of a lone step: two lone steps, which are one commit that the steps wait for and one of their own, and their
 * processor time.
 */
const MAX_BURST_TIMES = 12

const burst = async ({ all }: Sides) => {
  const prepare = newSteps(tools.allowed, 1)
  const figures = all.map(() => ({ lone: new Array<number>(), transactions: new Array<number>() }))
  const timed = async (side: Side, steps: number): Promise<number> => {
    const next = await prepare(side)
    const begin = performance.now()
    await Promise.all(Array.from({ length: steps }, () => side.send(next())))
    return performance.now() - begin
  }
  await warmUp(all, { prepare, ...CASE_WARM_UP })
  const bursts = await alternate(
    all.map((side, index) => async () => {
      for (let count = 0; count < 5; count++) figures[index]?.lone.push(await timed(side, 1))
      const before = await writeTransactions(side)
      const millis = await timed(side, BURST)
      figures[index]?.transactions.push((await writeTransactions(side)) - before)
      return millis
    }),
    { warmUp: 0, rounds: BURSTS }
  )
  console.log(`\n${BURST} steps of one session at once, allowed by a rule, ${BURSTS} interleaved bursts\n`)
  for (const [index, { name }] of all.entries()) {
    const { lone = [], transactions = [] } = figures[index] ?? {}
    const whole = bursts[index] ?? []
    console.log(line(`${name}, one step alone`, lone, "ms"))
    console.log(line(`${name}, all ${BURST}`, whole, "ms"))
    const times = [median(whole) / median(lone)]
    const title = "    all by one alone"
    console.log(index === 0 ? atMost(title, times, MAX_BURST_TIMES, "times") : line(title, times, "times"))
    console.log(line("    write transactions of a burst", transactions, ""))
  }
}

/** The load under which memory is measured, and the pause between samples, which take a while themselves. */
const MEMORY_MILLIS = 12_000
const SAMPLE_MILLIS = 1_000

/** Memory of this service and PostgreSQL under all kinds of requests at once, without the other sides, whose connections take memory. */
const memory = async ({ all: [side, ...others], store }: Sides) => {
  for (const other of others) await other.stop()
  if (side === undefined) throw new Error("This service must be the first side")
  const samples: Array<{ readonly service: number; readonly postgres: number }> = []
  const postgres = async () => store.megabytes(await preparerPids(side))
  const sample = async () =>
    samples.push({ postgres: await postgres(), service: residentMegabytes(side.pid) })
  const sampling = setInterval(() => void sample(), SAMPLE_MILLIS)
  let done = 0
  for (const begin = performance.now(); performance.now() - begin < MEMORY_MILLIS;) {
    const next = await withEmptyQueue(mixedRequests)(side)
    let left = PREPARED
    await Promise.all(
      Array.from({ length: MANY }, async () => {
        while (left-- > 0) await side.send(next())
      })
    )
    done += PREPARED
  }
  clearInterval(sampling)
  console.log(
    `\nMemory under ${done} steps, decisions, resumes and runs, 16 callers; a shared page counts once\n`
  )
  console.log(
    line(
      "the service, resident",
      samples.map(({ service }) => service),
      "MB"
    )
  )
  console.log(line("    at its peak", [peakMegabytes(side.pid)], "MB"))
  console.log(
    line(
      "all PostgreSQL processes",
      samples.map(({ postgres }) => postgres),
      "MB"
    )
  )
  const both = samples.map(({ postgres, service }) => service + postgres)
  console.log(atMost("both, at most", [Math.max(...both)], 300, "MB"))
}

/** The cases in the order in which they run. The last one stops the other sides. */
export const cases: Readonly<Record<string, (sides: Sides) => Promise<void>>> = {
  allowed,
  claimed,
  budgets,
  waiting,
  decide,
  resume,
  run: logRun,
  burst,
  memory
}
