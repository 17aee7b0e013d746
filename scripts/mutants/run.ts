/** Runs mutants, several at a time, each in a copy of the checkout. */
import { type ChildProcess, execFileSync, fork } from "node:child_process"
import { once } from "node:events"
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { availableParallelism, tmpdir } from "node:os"
import path from "node:path"
import { mutate, type Mutant, type Outcome, root } from "./list.ts"

/** A mutant whose tests hang is killed: a hanging test is a failing one. */
const TIMEOUT_MILLIS = 300_000

/** Copies files that Git tracks and links dependencies. */
const copyCheckout = (directory: string): void => {
  const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: root
  })
  for (const file of files.toString().split("\0").filter(Boolean)) {
    const target = path.join(directory, file)
    mkdirSync(path.dirname(target), { recursive: true })
    cpSync(path.join(root, file), target)
  }
  for (const linked of ["node_modules", "scripts/node/node_modules"]) {
    symlinkSync(path.join(root, linked), path.join(directory, linked), "junction")
  }
}

/** A request to `runner.ts`: run a test file after a source has changed. */
export interface TestRequest {
  /** Relative to the copy. */
  readonly test: string
  /** Absolute. */
  readonly changed: string | undefined
}

/** The response of `runner.ts`. */
export interface TestResult {
  /** The name of the first test that failed, or another fault; undefined if all tests of the file passed. */
  readonly failure: string | undefined
}

/** Runs the test files of one copy. */
interface Runner {
  /** Runs a test file. `changed`: the source that has changed since the last run, if any. */
  readonly run: (test: string, changed?: string) => Promise<TestResult>
  /** Ends its process and the test server. */
  readonly close: () => Promise<void>
  readonly kill: () => void
}

const makeRunner = (directory: string): Runner => {
  let child: ChildProcess | undefined
  const start = (): ChildProcess =>
    fork(path.join("scripts", "mutants", "runner.ts"), {
      cwd: directory,
      stdio: ["ignore", "ignore", "ignore", "ipc"]
    })
  const kill = () => {
    child?.kill("SIGKILL")
    child = undefined
  }
  /** The result of a test file; undefined if the process ended or hangs. */
  const request = (runner: ChildProcess, message: TestRequest): Promise<TestResult | undefined> =>
    new Promise((resolve) => {
      const end = (result: TestResult | undefined) => {
        clearTimeout(timer)
        runner.off("message", end).off("exit", onExit)
        resolve(result)
      }
      const onExit = () => end(undefined)
      const timer = setTimeout(onExit, TIMEOUT_MILLIS)
      runner.on("message", end).on("exit", onExit)
      runner.send(message)
    })

  return {
    run: async (test, changed) => {
      child ??= start()
      const result = await request(child, { test: path.join("test", test), changed })
      if (result === undefined) kill()
      return result ?? { failure: "a process that hung or ended" }
    },
    close: async () => {
      if (child === undefined) return
      const ended = once(child, "exit")
      child.disconnect()
      await ended
      child = undefined
    },
    kill
  }
}

/** Runs mutants, prints each outcome as it is known, and returns them all. */
export const runMutants = async (mutants: ReadonlyArray<Mutant>): Promise<ReadonlyArray<Outcome>> => {
  const copies = mkdtempSync(path.join(tmpdir(), "countersign-mutants-"))
  const runners: Array<Runner> = []
  const clean = () => {
    for (const runner of runners) runner.kill()
    rmSync(copies, { recursive: true, force: true })
  }
  process.once("exit", clean)
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1))

  // A test that fails anyway would kill every mutant.
  const first = path.join(copies, "0")
  copyCheckout(first)
  const firstRunner = makeRunner(first)
  runners.push(firstRunner)
  for (const test of new Set(mutants.flatMap(({ tests }) => tests))) {
    if ((await firstRunner.run(test)).failure === undefined) continue
    // A test may run out of time on a busy machine.
    const { failure } = await firstRunner.run(test)
    if (failure !== undefined) throw new Error(`test/${test} fails without a mutant: ${failure}`)
  }

  const left = [...mutants]
  const outcomes: Array<Outcome> = []
  const work = async (worker: number) => {
    const directory = path.join(copies, String(worker))
    let runner = firstRunner
    if (directory !== first) {
      copyCheckout(directory)
      runner = makeRunner(directory)
      runners.push(runner)
    }
    for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
      const file = path.join(directory, "src", mutant.file)
      const source = readFileSync(file, "utf8")
      writeFileSync(file, mutate(source, mutant))
      let killedBy: string | undefined
      const begin = performance.now()
      for (const test of mutant.tests) {
        const { failure } = await runner.run(test, file)
        if (failure === undefined) continue
        killedBy = `${test}: ${failure}`
        break
      }
      writeFileSync(file, source)
      outcomes.push({ mutant, killedBy })
      const seconds = Math.round((performance.now() - begin) / 1_000)
      console.log(`${report(mutant, killedBy)} (${seconds} s)`)
    }
  }
  await Promise.all(
    Array.from({ length: Math.min(availableParallelism(), mutants.length) }, (_, worker) => work(worker))
  )
  await Promise.all(runners.map(({ close }) => close()))
  return outcomes
}

const report = (mutant: Mutant, killedBy: string | undefined): string => {
  const outcome =
    killedBy === undefined ? (mutant.equivalent === undefined ? "SURVIVED  " : "equivalent") : "killed    "
  const reason = killedBy === undefined ? (mutant.equivalent ?? "") : `by test/${killedBy}`
  return `${outcome} src/${mutant.file}: ${mutant.from.replaceAll(/\s+/g, " ")} → ${mutant.to.replaceAll(/\s+/g, " ") || "(removed)"} ${reason}`
}
