/**
 * Isolation from a hanging receiver: latency from commit to arrival at fifty healthy endpoints, without and with 10,000 deliveries queued
 * for one more endpoint of one of their organizations, which accepts requests and never answers. Its cooldown is switched off, so that
 * attempts hang throughout. Two processes on one PostgreSQL server, in interleaved rounds.
 */
import { atMost, machine, quantile } from "../measure.ts"
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
      `${EVENTS_PER_SECOND * ENDPOINTS} deliveries per second, ${ROUNDS} interleaved rounds: commit to arrival\n`
    )
    console.log(latencyLine("every receiver answers", all[0]))
    console.log(latencyLine(`${HANGING} queued for a hanging receiver`, all[1]))
    console.log(atMost("p99 beside a hanging receiver, ratio", ratios, 1.25, "times"))
  } finally {
    await harness.dispose()
  }
}
