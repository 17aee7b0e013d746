import { Effect, Metric, type Scope } from "effect"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { VERSION } from "../../../domain/Version.ts"
import {
  buildInfo,
  processCpu,
  heapUsed,
  eventLoopDelay,
  residentMemory,
  processStartTime
} from "../metricDefinitions.ts"

type IntervalHistogram = ReturnType<typeof monitorEventLoopDelay>

/** How often the event loop is looked at. The delay is what comes on top. */
const RESOLUTION_MILLIS = 20

const quantiles = [
  ["0.5", (histogram: IntervalHistogram) => histogram.percentile(50)],
  ["0.99", (histogram: IntervalHistogram) => histogram.percentile(99)],
  ["1", (histogram: IntervalHistogram) => histogram.max]
] as const

/** Sets what the process tells of itself. The event loop is watched from the first time on. */
export const makeProcessCollector: Effect.Effect<Effect.Effect<void>, never, Scope.Scope> = Effect.gen(
  function* () {
    let histogram: IntervalHistogram | undefined
    let cpuBefore = 0
    yield* Effect.addFinalizer(() => Effect.sync(() => void histogram?.disable()))

    return Effect.gen(function* () {
      if (histogram === undefined) {
        histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MILLIS })
        histogram.enable()
        yield* Metric.update(processStartTime, Math.round(performance.timeOrigin) / 1000)
        yield* Metric.update(buildInfo(VERSION), 1)
      }
      for (const [quantile, of] of quantiles) {
        // Without a sample yet the figures are none.
        const late = histogram.count === 0 ? 0 : of(histogram) / 1e9 - RESOLUTION_MILLIS / 1000
        yield* Metric.update(eventLoopDelay(quantile), Math.max(0, late))
      }
      // The sample after a reset is not taken: a stall that begins within 20 ms of a collection is not seen.
      histogram.reset()
      const memory = process.memoryUsage()
      yield* Metric.update(residentMemory, memory.rss)
      yield* Metric.update(heapUsed, memory.heapUsed)
      const { system, user } = process.cpuUsage()
      const cpu = (system + user) / 1e6
      yield* Metric.update(processCpu, cpu - cpuBefore)
      cpuBefore = cpu
    })
  }
)
