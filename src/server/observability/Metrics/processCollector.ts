import { Effect, Metric, type Scope } from "effect"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { VERSION } from "../../../domain/Version.ts"
import {
  buildInfo,
  eventLoopDelay,
  heapUsed,
  processCpu,
  processStartTime,
  residentMemory
} from "../metricDefinitions.ts"

type IntervalHistogram = ReturnType<typeof monitorEventLoopDelay>

/** The sampling interval of the event loop. The histogram contains it; the lag is the rest. */
const RESOLUTION_MILLIS = 20

const statistics = [
  ["median", (histogram: IntervalHistogram) => histogram.percentile(50)],
  ["p99", (histogram: IntervalHistogram) => histogram.percentile(99)],
  ["max", (histogram: IntervalHistogram) => histogram.max]
] as const

/** Updates the gauges of the process. Event-loop sampling starts with the first run, so that it costs nothing if metrics are not read. */
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
      for (const [statistic, read] of statistics) {
        // An empty histogram has no meaningful values.
        const lag = histogram.count === 0 ? 0 : read(histogram) / 1e9 - RESOLUTION_MILLIS / 1000
        yield* Metric.update(eventLoopDelay(statistic), Math.max(0, lag))
      }
      // Node drops the first sample after a reset: a stall that begins within 20 ms of a collection is missed.
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
