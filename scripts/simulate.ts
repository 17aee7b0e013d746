/**
 * Simulates the delivery engine: replicas, store, network and receivers in one process, with a virtual clock and faults,
 * all decided by a seed. Fails if an invariant breaks, with the seed, and with the few actions and the trace that break it.
 *
 *     npm run simulate -- --seeds 2000          seeds 1 to 2000, on all processors
 *     npm run simulate -- --from 5000 --forever until it is stopped, or a seed fails
 *     npm run simulate -- --seed 42             one seed, with its trace
 *     npm run simulate -- --seed 42 --keep 3,7  only these actions of it, as printed after a failure
 *     npm run simulate -- --planted             plants bugs one by one: each must be found
 *     npm run simulate -- --plant lease-margin  plants one of them
 *     npm run simulate -- --coverage            says afterwards how much of the code ran, and which code no seed has executed
 *
 * docs/architecture/simulation.md says what is simulated and checked, and what is not.
 */
import { availableParallelism } from "node:os"
import { Worker } from "node:worker_threads"
import type { Profiler } from "node:inspector"
import { mergeCoverage } from "./simulate/coverage.ts"
import type { SeedOutcome } from "./simulate/core/seeds.ts"
import { plant, plantedBugs } from "./simulate/planted.ts"
import type { WorkerOptions } from "./simulate/worker.ts"
import { failUsage, parseOptions } from "./parseOptions.ts"

/** How long a failing seed is shrunk at most, in milliseconds. */
const SHRINK_MILLIS = 120_000

/** Seeds that a planted bug may survive. */
const PLANTED_SEEDS = 2_000

const { values } = parseOptions(import.meta.filename, {
  options: {
    seeds: { type: "string", default: "200" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    keep: { type: "string" },
    plant: { type: "string" },
    planted: { type: "boolean", default: false },
    coverage: { type: "boolean", default: false },
    forever: { type: "boolean", default: false },
    workers: { type: "string", default: String(availableParallelism()) }
  }
})

for (const [name, value] of Object.entries({
  seeds: values.seeds,
  from: values.from,
  seed: values.seed,
  workers: values.workers
})) {
  if (value !== undefined && !/^\d+$/.test(value))
    failUsage(import.meta.filename, `--${name} is a number, not ${value}`)
}
if (values.plant !== undefined && !Object.hasOwn(plantedBugs, values.plant))
  failUsage(
    import.meta.filename,
    `--plant is one of ${Object.keys(plantedBugs).join(", ")}, not ${values.plant}`
  )

/** The code that runs seeds is loaded when it runs, after bugs were planted in it. */
const loadRun = () => import("./simulate/delivery/run.ts")

/** What each worker has executed, if that is measured. */
const executed: Array<ReadonlyArray<Profiler.ScriptCoverage>> = []

/** Runs seeds on all workers, until they are done or one has failed. `each` gets every outcome. */
const runSeeds = async (
  seeds: Iterator<number>,
  bug: string | undefined,
  each: (outcome: SeedOutcome) => void
): Promise<SeedOutcome | undefined> => {
  let failed: SeedOutcome | undefined
  await Promise.all(
    Array.from({ length: Number(values.workers) }, async () => {
      const workerData: WorkerOptions = { bug, measuresCoverage: values.coverage }
      const worker = new Worker(new URL("simulate/worker.ts", import.meta.url), { workerData })
      await new Promise<void>((resolve, reject) => {
        const next = () => {
          const { done, value } = seeds.next()
          if ((done === true || failed !== undefined) && !values.coverage) resolve()
          // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a worker thread has no origin
          else worker.postMessage(done === true || failed !== undefined ? "coverage" : value)
        }
        worker.on("error", reject)
        worker.on("message", (outcome: SeedOutcome | ReadonlyArray<Profiler.ScriptCoverage>) => {
          if (isCoverage(outcome)) {
            executed.push(outcome)
            return resolve()
          }
          each(outcome)
          if (outcome.broken !== undefined && (failed === undefined || outcome.seed < failed.seed))
            failed = outcome
          next()
        })
        next()
      })
      await worker.terminate()
    })
  )
  return failed
}

const isCoverage = (
  message: SeedOutcome | ReadonlyArray<Profiler.ScriptCoverage>
): message is ReadonlyArray<Profiler.ScriptCoverage> => Array.isArray(message)

const printCoverage = (): void => {
  const files = mergeCoverage(executed)
  for (const { branches, covered, file, missing } of files) {
    console.log(`${file}: ${covered} of ${branches} branches`)
    for (const line of missing) console.log(`    ${line}`)
  }
  const sum = (of: "branches" | "covered") => files.reduce((total, file) => total + file[of], 0)
  const share = ((100 * sum("covered")) / sum("branches")).toFixed(1)
  console.log(`${sum("covered")} of ${sum("branches")} branches in ${files.length} files: ${share} %`)
}

function* numbers(from: number, to: number): Generator<number> {
  for (let number = from; number < to; number++) yield number
}

/** Shrinks a failing seed, and prints what is left of it. */
const explain = async (seed: number, bug: string | undefined): Promise<void> => {
  if (bug !== undefined) plant(bug)
  const { runSeed, shrinkSeed } = await loadRun()
  const until = performance.now() + SHRINK_MILLIS
  const keep = shrinkSeed(seed, () => performance.now() > until)
  runSeed(seed, keep, console.log)
  const planted = bug === undefined ? "" : ` --plant ${bug}`
  console.log(`\nRun it again: npm run simulate -- --seed ${seed} --keep ${keep.join(",")}${planted}`)
  console.log(`The whole run: npm run simulate -- --seed ${seed}${planted}`)
}

const single = async (seed: number): Promise<void> => {
  if (values.plant !== undefined) plant(values.plant)
  const { runSeed } = await loadRun()
  const outcome = runSeed(seed, values.keep?.split(",").map(Number), console.log)
  console.log(outcome)
  if (outcome.broken !== undefined) process.exitCode = 1
}

const many = async (bug: string | undefined): Promise<void> => {
  const from = Number(values.from)
  const began = performance.now()
  const sums: Record<string, number> = { seeds: 0, steps: 0, lasted: 0 }
  let reportedAt = began
  const report = () => {
    const minutes = (performance.now() - began) / 60_000
    const { lasted = 0, seeds = 0, ...counts } = sums
    console.log(
      `${seeds} seeds in ${(minutes * 60).toFixed(0)} s (${(seeds / minutes).toFixed(0)} a minute): ` +
        `${(lasted / 3_600_000).toFixed(1)} h of virtual time, ` +
        Object.entries(counts)
          .map(([name, count]) => `${count} ${name}`)
          .join(", ")
    )
  }
  const failed = await runSeeds(
    numbers(from, values.forever ? Infinity : from + Number(values.seeds)),
    bug,
    ({ counts, lasted, steps }) => {
      for (const [name, count] of Object.entries({ ...counts, lasted, steps, seeds: 1 })) {
        sums[name] = (sums[name] ?? 0) + count
      }
      if (performance.now() - reportedAt < 60_000) return
      reportedAt = performance.now()
      report()
    }
  )
  report()
  if (values.coverage) printCoverage()
  if (failed === undefined) return
  console.error(`\nSeed ${failed.seed} fails: ${failed.broken}\n`)
  process.exitCode = 1
  await explain(failed.seed, bug)
}

/** Each planted bug must be found. */
const planted = async (): Promise<void> => {
  for (const bug of Object.keys(plantedBugs)) {
    const from = Number(values.from)
    let run = 0
    const failed = await runSeeds(numbers(from, from + PLANTED_SEEDS), bug, () => void run++)
    if (failed === undefined) process.exitCode = 1
    console.log(
      failed === undefined
        ? `${bug}: NOT FOUND in ${run} seeds`
        : `${bug}: found by seed ${failed.seed}, after ${run} seeds: ${failed.broken}`
    )
  }
}

if (values.seed !== undefined) await single(Number(values.seed))
else if (values.planted) await planted()
else await many(values.plant)
