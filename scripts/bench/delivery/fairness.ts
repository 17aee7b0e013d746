/**
 * What a receiver that hangs costs the others: how long after its commit an event arrives at fifty endpoints that answer at once,
 * without and with 10,000 deliveries queued for one more endpoint of one of their organizations that takes requests and never answers.
 * It never cools down here, so that its attempts hang throughout. Two processes on one PostgreSQL, in turn.
 */
import { line, machine, quantile } from "../measure.ts"
import { latencyLine, startHarness } from "./harness.ts"
import { ENDPOINTS } from "./message.ts"

const HANGING = 10_000
const EVENTS_PER_SECOND = 40
const ROUND_MILLIS = 6_000
const ROUNDS = 8

export const fairness = async (): Promise<void> => {
  const harness = await startHarness()
  try {
    const calm = await harness.start("ours")
    const beside = await harness.start("ours", { BENCH_COOLDOWN_AFTER: "1000000000" })
    await beside.ask({ _tag: "QueueForHanging", deliveries: HANGING })
    const all: [Array<number>, Array<number>] = [[], []]
    const ratios: Array<number> = []
    for (let round = -1; round < ROUNDS; round++) {
      const free = await harness.latencies(calm, EVENTS_PER_SECOND, ROUND_MILLIS)
      const held = await harness.latencies(beside, EVENTS_PER_SECOND, ROUND_MILLIS)
      if (round < 0) continue
      all[0].push(...free)
      all[1].push(...held)
      ratios.push(quantile(held, 0.99) / quantile(free, 0.99))
    }
    console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on`)
    console.log(
      `${EVENTS_PER_SECOND * ENDPOINTS} deliveries a second, ${ROUNDS} rounds in turn: commit to arrival\n`
    )
    console.log(latencyLine("nobody hangs", all[0]))
    console.log(latencyLine(`${HANGING} queued for a receiver that hangs`, all[1]))
    console.log(line("p99 of a round to that of the other (goal: 1.25)", ratios, "times"))
  } finally {
    await harness.dispose()
  }
}
