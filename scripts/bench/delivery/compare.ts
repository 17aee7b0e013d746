/**
 * Signed webhooks, committed and then sent, by four sides in interleaved rounds: this service, a worker on graphile-worker, a worker on
 * pg-boss, and an upper bound that sends the same requests with no database at all. Only this service also records deliveries and
 * attempts, keeps a queue per destination and limits concurrency per destination. Warm-up is left out. The second part measures latency
 * from commit to arrival, each side at a third of its own peak rate, one transaction per event.
 */
import { alternate, atLeast, line, machine, median, percentOf } from "../measure.ts"
import { latencyLine, type Round, type SideName, startHarness } from "./harness.ts"
import { CONCURRENCY, ENDPOINTS } from "./message.ts"

const EVENTS = 1_000
const ROUNDS = 7
const WARM_UP = 2
const LATENCY_MILLIS = 8_000

const names: ReadonlyArray<SideName> = ["raw", "graphile", "pgBoss", "ours"]
const titles: Readonly<Record<SideName, string>> = {
  raw: "undici.request, no database",
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
    console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on; ${CONCURRENCY} concurrent requests`)
    console.log(
      `${EVENTS * ENDPOINTS} deliveries committed in one transaction, until the last is recorded; ${ROUNDS} interleaved rounds\n`
    )
    for (const [index, name] of names.entries())
      console.log(line(titles[name], rates[index] ?? [], "deliveries/s"))
    console.log("\nprocessor time per delivery: sender, PostgreSQL, receiver")
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
    console.log("")
    console.log(atLeast("rate by undici.request", percentOf(ours, raw), 50, "%"))
    console.log(atLeast("rate by graphile-worker", percentOf(ours, graphile), 200, "%"))
    console.log(atLeast("rate by pg-boss", percentOf(ours, pgBoss), 200, "%"))

    console.log("\ncommit to arrival, each at a third of its own peak rate")
    for (const [index, runner] of runners.entries()) {
      if (runner.name === "raw") continue
      const third = median(rates[index] ?? []) / 3
      const millis = await harness.latencies(runner, third / ENDPOINTS, LATENCY_MILLIS)
      console.log(latencyLine(`${titles[runner.name]}, ${third.toFixed(0)} per second`, millis))
    }
  } finally {
    await harness.dispose()
  }
}
