/**
 * Signed webhooks, committed and then worked off: ours, a worker on graphile-worker and one on pg-boss, and the limit, the same
 * requests without any store. Ours also keeps the log of deliveries and attempts, the order of destinations and their caps. Rounds in
 * turn, warm-up left out. Then how long after its commit an event arrives, each at a third of its
 * own peak, one transaction an event.
 */
import { alternate, line, machine, median } from "../measure.ts"
import { latencyLine, type Round, type SideName, startHarness } from "./harness.ts"
import { CONCURRENCY, ENDPOINTS } from "./message.ts"

const EVENTS = 1_000
const ROUNDS = 7
const WARM_UP = 2
const LATENCY_MILLIS = 8_000

const names: ReadonlyArray<SideName> = ["raw", "graphile", "pgBoss", "ours"]
const titles: Readonly<Record<SideName, string>> = {
  raw: "undici.request, no store",
  graphile: "graphile-worker",
  pgBoss: "pg-boss",
  ours: "countersign"
}

export const compare = async (): Promise<void> => {
  const harness = await startHarness()
  try {
    const runners = []
    for (const name of names) runners.push(await harness.start(name))
    const kept: Array<{ readonly name: SideName; readonly round: Round }> = []
    const rates = await alternate(
      runners.map((runner) => async () => {
        const round = await harness.round(runner, EVENTS)
        kept.push({ name: runner.name, round })
        return round.perSecond
      }),
      { warmUp: WARM_UP, rounds: ROUNDS }
    )
    console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on; ${CONCURRENCY} requests at once`)
    console.log(
      `${EVENTS * ENDPOINTS} deliveries committed at once, until the last is written down; ${ROUNDS} rounds in turn\n`
    )
    for (const [index, name] of names.entries())
      console.log(line(titles[name], rates[index] ?? [], "deliveries/s"))
    console.log("\nprocessor time a delivery: sender, PostgreSQL, receiver")
    for (const name of names) {
      const rounds = kept
        .filter((one) => one.name === name)
        .slice(WARM_UP)
        .map(({ round }) => round)
      const of = (part: "sender" | "store" | "receiver") =>
        median(rounds.map((round) => round[part]))
          .toFixed(0)
          .padStart(6)
      console.log(`${titles[name].padEnd(44)} ${of("sender")} ${of("store")} ${of("receiver")} µs`)
    }
    const [raw = [], graphile = [], pgBoss = [], ours = []] = rates
    const against = (other: ReadonlyArray<number>) =>
      ours.map((rate, index) => rate / (other[index] ?? Number.NaN))
    console.log("")
    console.log(
      line(
        "to the limit (goal: at least 0.5)",
        against(raw).map((ratio) => ratio * 100),
        "%"
      )
    )
    console.log(
      line(
        "to graphile-worker (goal: at least 2)",
        against(graphile).map((ratio) => ratio * 100),
        "%"
      )
    )
    console.log(
      line(
        "to pg-boss (goal: at least 2)",
        against(pgBoss).map((ratio) => ratio * 100),
        "%"
      )
    )

    console.log("\ncommit to arrival, each at a third of its own peak (goal: p50 15, p99 60)")
    for (const [index, runner] of runners.entries()) {
      if (runner.name === "raw") continue
      const third = median(rates[index] ?? []) / 3
      const millis = await harness.latencies(runner, third / ENDPOINTS, LATENCY_MILLIS)
      console.log(latencyLine(`${titles[runner.name]}, ${third.toFixed(0)} a second`, millis))
    }
  } finally {
    await harness.dispose()
  }
}
