/**
 * Faults that happen to real processes under load. Prints a report, and fails if a guarantee was broken.
 *
 *     npm run chaos                             200 kills of replicas with other faults between them (a quarter of an hour)
 *     npm run chaos -- 20                       20 kills
 *     npm run chaos -- --faults disk,failover   other faults: disk, memory, clock, failover, pooler; or all
 *     npm run chaos -- --faults disk --rounds 9 --seed 7
 *     npm run chaos -- --faults failover --only "the primary is killed" --rounds 5
 *
 * Each run prints its seed. The same seed causes the same faults in the same order.
 */
import { Effect, Layer } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { layerWebhookDependencies } from "../test/support/delivery.ts"
import { seededRandom } from "../test/support/breakingProxy.ts"
import { runClockFaults } from "./chaos/faults/clock.ts"
import { runDiskFaults } from "./chaos/faults/disk.ts"
import { runFailover, runPoolerFailover } from "./chaos/faults/failover.ts"
import { runMemoryFaults } from "./chaos/faults/memory.ts"
import { brokenGuarantees, faultsFor, missedDeadlines } from "./chaos/plan.ts"
import { chaos } from "./chaos/run.ts"
import { startDatabase } from "./chaos/store.ts"
import { parseOptions } from "./parseOptions.ts"

const { positionals, values } = parseOptions(import.meta.filename, {
  allowPositionals: true,
  options: {
    faults: { type: "string" },
    only: { type: "string" },
    rounds: { type: "string" },
    seed: { type: "string" }
  }
})

/** The runs by name, with the rounds in which every fault happens once. */
const runs = {
  disk: { run: runDiskFaults, rounds: 5 },
  memory: { run: runMemoryFaults, rounds: 7 },
  clock: { run: runClockFaults, rounds: 5 },
  failover: { run: runFailover, rounds: 4 },
  pooler: { run: runPoolerFailover, rounds: 5 }
}

const report = (promises: ReadonlyArray<string>) => {
  for (const promise of promises) console.error(`broken: ${promise}`)
  if (promises.length > 0) process.exitCode = 1
}

const runKills = async (kills: number, seed: number) => {
  const dataDir = mkdtempSync(path.join(tmpdir(), "countersign-chaos-"))
  const program = Effect.gen(function* () {
    const store = yield* startDatabase({ dataDir })
    return yield* chaos({
      url: store.url,
      restartDatabase: store.restart,
      replicas: 5,
      faults: faultsFor(kills),
      eventsPerFault: 100,
      random: seededRandom(seed),
      progress: console.log
    }).pipe(Effect.provide(Layer.merge(store.layer, layerWebhookDependencies)))
  })
  try {
    const result = await Effect.runPromise(Effect.scoped(program))
    console.log(result)
    report([...brokenGuarantees(result), ...missedDeadlines(result)])
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

const runFaults = async (name: keyof typeof runs, seed: number) => {
  const rounds = Number(values.rounds ?? runs[name].rounds)
  console.log(`${name}: ${rounds} rounds, --seed ${seed}`)
  const result = await Effect.runPromise(
    Effect.scoped(
      runs[name].run({
        random: seededRandom(seed),
        rounds,
        progress: console.log,
        ...(values.only === undefined ? {} : { names: [values.only] })
      })
    )
  )
  if (result === undefined) {
    console.log(
      `${name} is skipped: it needs Linux, for disk and clock a C compiler (cc), and for pooler PgBouncer`
    )
    return
  }
  const { broken, rounds: list, ...totals } = result
  console.log({ ...totals, slowestRecovery: Math.max(...list.map(({ recovery }) => recovery)) })
  report(broken)
}

const isRun = (name: string): name is keyof typeof runs => Object.hasOwn(runs, name)

if (values.faults === undefined) {
  const kills = Number(positionals[0] ?? "200")
  await runKills(kills, Number(values.seed ?? kills))
} else {
  const names = values.faults === "all" ? Object.keys(runs) : values.faults.split(",")
  const unknown = names.filter((name) => !isRun(name))
  if (unknown.length > 0) {
    console.error(`Unknown faults: ${unknown.join(", ")}. Choose of ${Object.keys(runs).join(", ")}, or all.`)
    process.exit(2)
  }
  const seed = Number(values.seed ?? Date.now() % 1_000_000)
  for (const name of names) if (isRun(name)) await runFaults(name, seed)
}
