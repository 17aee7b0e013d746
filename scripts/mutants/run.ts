/** Runs mutants of the list, several at a time, each in a copy of the checkout, on one shared database server. */
import { Effect, Redacted } from "effect"
import { execFile } from "node:child_process"
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { promisify } from "node:util"
import { testServer } from "../../test/support/testServer.ts"
import { mutate, type Mutant, root } from "./list.ts"

/** A test file that takes this long hangs with its mutant. Longer than the time-out of any test, which ends first. */
const TIMEOUT_MILLIS = 600_000

/** What a copy does without. */
const NOT_COPIED = new Set([".git", ".bundles", ".console", "coverage", "dist", "node_modules"])

const copyCheckout = (directory: string): void => {
  cpSync(root, directory, {
    recursive: true,
    filter: (source) => source === root || !NOT_COPIED.has(path.basename(source))
  })
  symlinkSync(path.join(root, "node_modules"), path.join(directory, "node_modules"), "junction")
}

/** Runs test files in a copy until one fails. Returns what failed; undefined if all passed. */
const failureOf = async (
  directory: string,
  tests: ReadonlyArray<string>,
  databaseUrl: string,
  signal: AbortSignal
): Promise<string | undefined> => {
  const files = tests.map((test) => path.posix.join("test", test))
  try {
    await promisify(execFile)(
      process.execPath,
      ["node_modules/vitest/vitest.mjs", "run", "--bail=1", "--reporter=default", ...files],
      {
        cwd: directory,
        env: { ...process.env, COUNTERSIGN_TEST_DATABASE_URL: databaseUrl, NO_COLOR: "1" },
        maxBuffer: Infinity,
        signal,
        timeout: TIMEOUT_MILLIS * tests.length,
        killSignal: "SIGKILL"
      }
    )
    return undefined
  } catch (error) {
    const output = error instanceof Error && "stderr" in error ? String(error.stderr) : ""
    return / FAIL +(.*)/.exec(output)?.[1] ?? "a run that hung or ended"
  }
}

/** The places of a mutant's text in its file. */
const countPlaces = (mutant: Mutant): number => {
  const file = path.join(root, "src", mutant.file)
  if (!existsSync(file)) return 0
  return mutate(readFileSync(file, "utf8"), { from: mutant.from, to: "\0" }).split("\0").length - 1
}

/** Outdated entries of the list, as lines of a report. */
const outdated = (mutants: ReadonlyArray<Mutant>): ReadonlyArray<string> =>
  mutants.flatMap((mutant) => {
    const places = countPlaces(mutant)
    return [
      ...(places === 1 ? [] : [`src/${mutant.file}: ${places} places, expected 1: ${mutant.from}`]),
      ...(existsSync(path.join(root, "test", mutant.test)) ? [] : [`test/${mutant.test} does not exist`])
    ]
  })

/** Runs the mutants in as many copies as there are workers, and prints each outcome. Returns whether tests noticed all of them. */
const runAll = async (
  mutants: ReadonlyArray<Mutant>,
  workers: number,
  databaseUrl: string,
  signal: AbortSignal
): Promise<boolean> => {
  // A test that fails anyway would kill every mutant.
  const tests = [...new Set(mutants.map(({ test }) => test))]
  const unmutated = await failureOf(root, tests, databaseUrl, signal)
  if (unmutated !== undefined) {
    console.error(`fails without a mutant: ${unmutated}`)
    return false
  }
  const waiting = [...mutants]
  let killed = 0
  const runMutant = async (directory: string, mutant: Mutant) => {
    const file = path.join(directory, "src", mutant.file)
    const source = readFileSync(file, "utf8")
    writeFileSync(file, mutate(source, mutant))
    const failure = await failureOf(directory, [mutant.test], databaseUrl, signal)
    writeFileSync(file, source)
    signal.throwIfAborted()
    if (failure !== undefined) killed++
    console.log(
      `${failure === undefined ? "SURVIVED" : "killed  "} src/${mutant.file}: ${mutant.from} → ` +
        `${mutant.to || "(removed)"} (${failure ?? `test/${mutant.test}`})`
    )
  }
  const copies = mkdtempSync(path.join(tmpdir(), "countersign-mutants-"))
  process.once("exit", () => rmSync(copies, { recursive: true, force: true }))
  const work = async (worker: number) => {
    const directory = path.join(copies, String(worker))
    copyCheckout(directory)
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift())
      await runMutant(directory, mutant)
  }
  await Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)))
  console.log(`\n${killed} killed, ${mutants.length - killed} survived of ${mutants.length}`)
  return killed === mutants.length
}

/** Runs mutants of the list. Succeeds with whether tests noticed all of them. */
export const runMutants = Effect.fn(function* (mutants: ReadonlyArray<Mutant>, workers: number) {
  const faults = outdated(mutants)
  for (const fault of faults) console.error(fault)
  if (faults.length > 0) return false
  const { url } = yield* testServer
  return yield* Effect.promise((signal) => runAll(mutants, workers, Redacted.value(url), signal))
}, Effect.scoped)
