/**
 * Records what clients of several replicas see while replicas are killed and frozen, connections break and the database
 * restarts, and checks that each object behaved as if its operations had run one at a time.
 *
 *     npm run linearizability                           60 seconds
 *     npm run linearizability -- --seconds 600 --seed 7
 *     npm run linearizability -- --planted              with broken lines in the service, each of which must be found
 *     npm run linearizability -- --planted decided      only those whose name contains one of the words
 *
 * The seed decides what is called and which faults happen, as far as the machine's timing lets it. With Go installed,
 * the histories are checked by Porcupine as well. Fails if a guarantee was broken; the history of each object that
 * shows it is written to a file.
 */
import { Effect } from "effect"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { bundleService } from "./linearizability/bundleService.ts"
import { type PlantedFault, plantedFaults } from "./linearizability/plantedFaults.ts"
import { checkWithPorcupine } from "./linearizability/porcupine.ts"
import { runLinearizability, type RunOptions, type RunReport } from "./linearizability/run.ts"
import { summaryOf, violationsOf } from "./linearizability/violations.ts"
import { parseOptions } from "./parseOptions.ts"

const { positionals, values } = parseOptions(import.meta.filename, {
  allowPositionals: true,
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
    planted: { type: "boolean", default: false }
  }
})
const seconds = Number(values.seconds)
const seed = Number(values.seed)

const cache = fileURLToPath(new URL("../node_modules/.cache/linearizability/", import.meta.url))

/** Lines of an explanation that are printed; the file has all of them. */
const PRINTED_LINES = 80

/** Sessions, datasets or budgets in use at a time while a planted fault is looked for. */
const PLANTED_LANES = 6

/** Runs the service, with a planted fault if one is given. */
const runOnce = async (fault?: PlantedFault, options: Partial<RunOptions> = {}): Promise<RunReport> => {
  const dataDir = mkdtempSync(path.join(tmpdir(), "countersign-linearizability-"))
  const bundle = path.join(cache, `bundle-${process.pid}`)
  try {
    const entry = await bundleService(bundle, fault)
    return await Effect.runPromise(
      Effect.scoped(runLinearizability({ entry, dataDir, seconds, seed, progress: console.log, ...options }))
    )
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
    rmSync(bundle, { recursive: true, force: true })
  }
}

/** Writes the histories of objects that are not linearizable, and prints the shortest. */
const explain = ({ objects }: RunReport): void => {
  const explanations = objects.flatMap(({ explanation }) => (explanation === undefined ? [] : [explanation]))
  if (explanations.length === 0) return
  mkdirSync(cache, { recursive: true })
  const file = path.join(cache, `violations-${seed}.txt`)
  writeFileSync(file, `${explanations.join("\n\n")}\n`)
  const [shortest = ""] = explanations.toSorted((a, b) => a.length - b.length)
  console.error(shortest.split("\n").slice(0, PRINTED_LINES).join("\n"))
  console.error(`${explanations.length} histories are in ${file}`)
}

/** Compares with Porcupine; returns what differs. */
const compare = ({ objects }: RunReport): ReadonlyArray<string> => {
  const result = checkWithPorcupine(objects, cache)
  if (result._tag === "NotRun") {
    console.log(`Porcupine: not run: ${result.reason}`)
    return []
  }
  const skipped = result.skipped === 0 ? "" : `, ${result.skipped} have too many states`
  console.log(`Porcupine: ${result.objects} objects in ${result.seconds.toFixed(2)} s${skipped}`)
  return result.different
}

if (values.planted) {
  const chosen = Object.entries(plantedFaults).filter(
    ([name]) => positionals.length === 0 || positionals.some((word) => name.includes(word))
  )
  for (const [name, fault] of chosen) {
    // Without other faults there are more operations, and the planted one is found sooner.
    const lanesOf = (...objects: ReadonlyArray<PlantedFault["object"]>) =>
      objects.includes(fault.object) ? PLANTED_LANES : 0
    const report = await runOnce(fault, {
      causesFaults: false,
      sessions: lanesOf("session", "key"),
      datasets: lanesOf("dataset"),
      budgets: lanesOf("budget")
    })
    const found = report.objects.filter(
      ({ object, verdict }) => verdict === "Violation" && object.startsWith(fault.object)
    )
    const different = compare(report)
    for (const line of different) console.error(`broken: ${line}`)
    console.log(`${found.length > 0 ? "found    " : "NOT FOUND"} ${name}: ${found.length} histories show it`)
    if (found.length === 0 || different.length > 0) process.exitCode = 1
  }
} else {
  const report = await runOnce()
  for (const line of summaryOf(report)) console.log(line)
  const violations = [...violationsOf(report), ...compare(report)]
  explain(report)
  for (const violation of violations) console.error(`broken: ${violation}`)
  if (violations.length > 0) process.exitCode = 1
}
