import { Clock, Effect, Layer } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { layerWorker } from "../../server/concurrency/Worker.ts"
import { monotonicMillis } from "../../server/concurrency/monotonicMillis.ts"

/** How often the processor time of the process is read. */
const INTERVAL = "5 seconds"

/** The process is idle if it used at most this part of one processor in an interval. At rest it uses 0.2 to 0.5 %. */
const IDLE_SHARE = 0.03

/**
 * Idle intervals in a row before the collection, together 30 s. It drops compiled code that was not used just before, so that after it
 * requests cost more for some seconds: pauses between bursts must not lead to it.
 */
const IDLE_INTERVALS = 6

/** What trimming reads and does. */
export interface HeapTrim {
  /** Processor time of the process so far, in microseconds. */
  readonly processorMicros: () => number
  /** Collects all garbage and returns the freed memory to the system. */
  readonly collect: () => void
}

/**
 * The garbage collector of this process. Node offers it as `globalThis.gc` only if it was started with `--expose-gc`, which
 * `node dist/main.js`, `npx countersign` and `npm start` would all have to pass; a context that is created after the flag is set has it.
 */
const findCollector = (): NodeJS.GCFunction | undefined => {
  const found: { gc?: NodeJS.GCFunction } = {}
  setFlagsFromString("--expose-gc")
  runInNewContext("found.gc = globalThis.gc", { found })
  return found.gc
}

const makeProcessTrim = (): HeapTrim => {
  const collect = findCollector()
  return {
    processorMicros: () => {
      const { system, user } = process.cpuUsage()
      return user + system
    },
    collect: () => collect?.({ type: "major", execution: "sync", flavor: "last-resort" })
  }
}

/**
 * Returns the memory of past load to the system: one full collection after 30 idle seconds. V8 waits 100 s for
 * that, since it takes its allocation rate for high until the next full collection. The collection takes some 100 ms, which no request
 * waits for unless it arrives just then.
 */
export const layerIdleHeapTrim = (makeTrim: () => HeapTrim = makeProcessTrim): Layer.Layer<never> =>
  Layer.unwrap(
    Effect.map(Clock.Clock, (clock) => {
      const { collect, processorMicros } = makeTrim()
      const read = () => ({ millis: monotonicMillis(clock), micros: processorMicros() })
      // The start counts as work: it leaves parsed sources and initial values behind.
      let idleIntervals = 0
      let last = read()
      return layerWorker({
        name: "idle_heap_trim",
        every: INTERVAL,
        firstRun: "after_pause",
        runOnce: Effect.sync(() => {
          const now = read()
          const share = (now.micros - last.micros) / 1_000 / (now.millis - last.millis)
          last = now
          idleIntervals = share > IDLE_SHARE ? 0 : idleIntervals + 1
          if (idleIntervals !== IDLE_INTERVALS) return
          collect()
          // The collection's own processor time must not count as work.
          last = read()
        })
      })
    })
  )
