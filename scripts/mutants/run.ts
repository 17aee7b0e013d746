/** Runs mutants, several at a time, each in a copy of the checkout, on one shared database server. */
import { Effect, Exit, Redacted, Scope } from "effect"
import { type ChildProcess, execFileSync, fork } from "node:child_process"
import { once } from "node:events"
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { testServer } from "../../test/support/testServer.ts"
import { lastNoticedBy, rememberNoticedBy } from "./lastRun.ts"
import { mutate, type Mutant, type Outcome, root } from "./list.ts"

/**
 * A test file that takes this long with a mutant, and this many times as long as without, is killed: a hanging test is
 * a failing one. Longer than the time-out of any test, which ends first unless the event loop is blocked.
 */
const TIMEOUT_MILLIS = 180_000
const TIMEOUT_FACTOR = 5
const BASELINE_TIMEOUT_MILLIS = 600_000

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
  /** The full name of the only test to run; undefined for all tests of the file. */
  readonly name: string | undefined
  /** The source that has changed since the last run, if any. Absolute. */
  readonly changed: string | undefined
}

/** Why a run failed: the first test that failed, or another fault. */
export type TestFailure = { readonly name: string } | { readonly fault: string }

/** The response of `runner.ts`: undefined if tests ran and all passed. */
export interface TestResult {
  readonly failure: TestFailure | undefined
}

/** Runs the test files of one copy. */
interface Runner {
  /** Runs a test file, or one test of it, for a limited time. */
  readonly run: (request: TestRequest, timeoutMillis: number) => Promise<TestFailure | undefined>
  /** Ends its process. */
  readonly close: () => Promise<void>
  readonly kill: () => void
}

const makeRunner = (directory: string, databaseUrl: string): Runner => {
  let child: ChildProcess | undefined
  const start = (): ChildProcess =>
    fork(path.join("scripts", "mutants", "runner.ts"), {
      cwd: directory,
      env: {
        ...process.env,
        COUNTERSIGN_TEST_DATABASE_URL: databaseUrl,
        NODE_COMPILE_CACHE: path.join(root, "node_modules/.cache/mutants")
      },
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      // The leader of a process group, which is killed as a whole: a mutant may loop in a process of a test.
      detached: true
    })
  const kill = () => {
    const pid = child?.pid
    child = undefined
    if (pid === undefined) return
    try {
      process.kill(-pid, "SIGKILL")
    } catch {
      // It has ended.
    }
  }
  /** The result of a test file; undefined if the process ended or hangs. */
  const request = (
    runner: ChildProcess,
    message: TestRequest,
    timeoutMillis: number
  ): Promise<TestResult | undefined> =>
    new Promise((resolve) => {
      const end = (result: TestResult | undefined) => {
        clearTimeout(timer)
        runner.off("message", end).off("exit", onExit)
        resolve(result)
      }
      const onExit = () => end(undefined)
      const timer = setTimeout(onExit, timeoutMillis)
      runner.on("message", end).on("exit", onExit)
      runner.send(message)
    })

  return {
    run: async (wanted, timeoutMillis) => {
      child ??= start()
      const message = { ...wanted, test: path.join("test", wanted.test) }
      const result = await request(child, message, timeoutMillis)
      if (result !== undefined) return result.failure
      kill()
      return { fault: "a process that hung or ended" }
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

/** Runs each test once without a mutant, when it is first needed: one that fails anyway would kill every mutant. */
const makeBaseline = () => {
  const runs = new Map<string, Promise<number>>()
  const measure = async (runner: Runner, test: string, name: string | undefined): Promise<number> => {
    for (let attempt = 0; ; attempt++) {
      const begin = performance.now()
      const failure = await runner.run({ test, name, changed: undefined }, BASELINE_TIMEOUT_MILLIS)
      if (failure === undefined) return performance.now() - begin
      // A test may run out of time on a busy machine, and an earlier mutant may have left something in the process.
      if (attempt === 2) throw new Error(`test/${test} fails without a mutant: ${describe(failure)}`)
      runner.kill()
    }
  }
  /**
   * How long a test file, or one test of it, took, in milliseconds. Fails if it does not pass. `isFresh`: it is measured again, on a machine
   * that may be busier now.
   */
  return (runner: Runner, test: string, name?: string, isFresh = false): Promise<number> => {
    const key = `${test} ${name}`
    const run = (isFresh ? undefined : runs.get(key)) ?? measure(runner, test, name)
    runs.set(key, run)
    // The fault may have been this runner's.
    run.catch(() => runs.delete(key))
    return run
  }
}

/** Groups of mutants with the same first test file, the largest first, so that no copy waits for another in the end. */
const groupByTest = (mutants: ReadonlyArray<Mutant>): Array<Array<Mutant>> =>
  [...Map.groupBy(mutants, ({ tests }) => tests[0]).values()].toSorted((a, b) => b.length - a.length)

/** Runs mutants in so many copies at a time, reports each outcome as it is known, and returns them all. */
export const runMutants = async (
  mutants: ReadonlyArray<Mutant>,
  workers: number,
  report: (outcome: Outcome) => void
): Promise<ReadonlyArray<Outcome>> => {
  const copies = mkdtempSync(path.join(tmpdir(), "countersign-mutants-"))
  const scope = Scope.makeUnsafe()
  const runners: Array<Runner> = []
  process.once("exit", () => {
    for (const runner of runners) runner.kill()
    rmSync(copies, { recursive: true, force: true })
  })
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void))
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => void close().finally(() => process.exit(1)))
  }
  const { url } = await Effect.runPromise(Scope.provide(testServer, scope))

  const baseline = makeBaseline()
  const groups = groupByTest(mutants)
  const outcomes: Array<Outcome> = []

  const runMutant = async (runner: Runner, directory: string, mutant: Mutant): Promise<Outcome> => {
    const file = path.join(directory, "src", mutant.file)
    const source = readFileSync(file, "utf8")
    const begin = performance.now()
    /** Runs a test file, or one test of it, with the mutant. */
    const run = async (test: string, name?: string, isFresh = false): Promise<TestFailure | undefined> => {
      const usual = await baseline(runner, test, name, isFresh)
      writeFileSync(file, mutate(source, mutant))
      const timeoutMillis = Math.max(TIMEOUT_MILLIS, TIMEOUT_FACTOR * usual)
      const failure = await runner.run({ test, name, changed: file }, timeoutMillis)
      writeFileSync(file, source)
      return failure
    }
    /**
     * Whether a test that failed with the mutant does so again: alone, where it passes without the mutant, or, if it needs
     * the tests before it, with its file. A busy machine may let a test run out of time that notices nothing.
     */
    const failsAgain = async (test: string, name: string): Promise<boolean> => {
      const alone = await run(test, name).catch(() => undefined)
      return alone !== undefined || (await run(test)) !== undefined
    }
    const last = lastNoticedBy(mutant)
    let killedBy: string | undefined
    if (last !== undefined) {
      // The test may have been renamed, or may need the tests before it: then its file decides.
      const failure = await run(last.test, last.name).catch(() => undefined)
      if (failure !== undefined) killedBy = `${last.test}: ${last.name}`
    }
    for (const test of killedBy === undefined ? mutant.tests : []) {
      // A file that fails anyway notices nothing, so the mutant survives it.
      const failure = await run(test).catch((error: unknown) => {
        console.error(String(error))
        return undefined
      })
      if (failure === undefined) continue
      if ("name" in failure) {
        if (!(await failsAgain(test, failure.name))) continue
        rememberNoticedBy(mutant, { test, name: failure.name })
      } else if ((await run(test, undefined, true).catch(() => undefined)) === undefined) {
        // A process that seemed to hang was only slow.
        continue
      }
      killedBy = `${test}: ${describe(failure)}`
      break
    }
    const outcome = { mutant, killedBy, millis: performance.now() - begin }
    report(outcome)
    return outcome
  }

  const work = async (worker: number) => {
    const directory = path.join(copies, String(worker))
    copyCheckout(directory)
    const runner = makeRunner(directory, Redacted.value(url))
    runners.push(runner)
    for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
      for (const mutant of group) outcomes.push(await runMutant(runner, directory, mutant))
    }
    await runner.close()
  }

  try {
    await Promise.all(Array.from({ length: Math.min(workers, groups.length) }, (_, worker) => work(worker)))
  } finally {
    for (const runner of runners) runner.kill()
    await close()
  }
  return outcomes
}

const describe = (failure: TestFailure): string => ("name" in failure ? failure.name : failure.fault)
