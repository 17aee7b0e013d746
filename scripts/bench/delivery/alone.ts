/**
 * Processor time of sending and recording deliveries one by one: they fall due at an even rate to fifty endpoints, so
 * that none shares its statements with many others, as in a service with moderate traffic. Queueing them is left out:
 * another statement writes the rows in advance. `BENCH_BEFORE` names the bundle of another build, which is then
 * measured in the same rounds.
 */
import { Redacted } from "effect"
import { setTimeout as pause } from "node:timers/promises"
import { alternate, line, machine, processorSeconds } from "../measure.ts"
import { type Runner, startHarness } from "./harness.ts"

const PER_SECOND = 100
const DELIVERIES = 500
/** Longer than the engine's poll for new rows. */
const AHEAD_MILLIS = 2_500
const ROUNDS = 6
const WARM_UP = 2

interface Costs {
  readonly sender: Array<number>
  readonly store: Array<number>
}

export const alone = async (): Promise<void> => {
  const harness = await startHarness()
  try {
    const builds = [undefined, process.env["BENCH_BEFORE"]]
    const runners: Array<Runner & { readonly costs: Costs }> = []
    for (const build of builds.slice(0, builds[1] === undefined ? 1 : 2)) {
      const runner = await harness.start("ours", build === undefined ? {} : { BENCH_BUILD: build })
      runners.push({ ...runner, costs: { sender: [], store: [] } })
    }
    const usage = (runner: Runner) => {
      const others = runners.filter((other) => other.pid !== runner.pid)
      const databases = others.map(({ url }) => new URL(Redacted.value(url)).pathname.slice(1))
      return [processorSeconds(runner.pid), harness.store.processorSeconds(databases)]
    }
    await alternate(
      runners.map((runner) => async () => {
        await runner.ask({
          _tag: "QueueAhead",
          deliveries: DELIVERIES,
          perSecond: PER_SECOND,
          afterMillis: AHEAD_MILLIS
        })
        const before = usage(runner)
        // The same time at rest, with the rows in the queue, is taken off.
        await pause(AHEAD_MILLIS - 200)
        const rested = usage(runner)
        await pause(200 + (DELIVERIES * 1_000) / PER_SECOND)
        await runner.ask({ _tag: "Settle" })
        const after = usage(runner)
        const restSeconds = (AHEAD_MILLIS - 200) / 1_000
        const seconds = 0.2 + DELIVERIES / PER_SECOND
        const each = (index: number): number => {
          const rest = ((rested[index] ?? 0) - (before[index] ?? 0)) * (seconds / restSeconds)
          return (((after[index] ?? 0) - (rested[index] ?? 0) - rest) * 1e6) / DELIVERIES
        }
        runner.costs.sender.push(each(0))
        runner.costs.store.push(each(1))
        return each(0) + each(1)
      }),
      { warmUp: WARM_UP, rounds: ROUNDS }
    )
    console.log(
      `\n${machine()}, PostgreSQL 18 embedded, fsync on; ${PER_SECOND} deliveries a second, ${ROUNDS} interleaved rounds`
    )
    for (const [index, { costs }] of runners.entries()) {
      const name = index === 0 ? "" : ", before"
      const sender = costs.sender.slice(WARM_UP)
      const store = costs.store.slice(WARM_UP)
      const both = sender.map((value, round) => value + (store[round] ?? Number.NaN))
      console.log(line(`a single delivery, sender${name}`, sender, "µs"))
      console.log(line(`a single delivery, PostgreSQL${name}`, store, "µs"))
      console.log(line(`both${name}`, both, "µs"))
    }
  } finally {
    await harness.dispose()
  }
}
