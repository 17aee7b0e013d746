/** Runs mutants, several at a time, each in a copy of the checkout. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
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

const vitest = path.join("node_modules", "vitest", "vitest.mjs")

/** Whether a test file fails in a copy. */
const fails = async (directory: string, test: string, running: Set<ChildProcess>): Promise<boolean> => {
  const child = spawn(
    process.execPath,
    [vitest, "run", path.join("test", test), "--maxWorkers=1", "--bail=1", "--reporter=dot"],
    { cwd: directory, stdio: "ignore", timeout: TIMEOUT_MILLIS, killSignal: "SIGKILL" }
  )
  running.add(child)
  await once(child, "exit")
  running.delete(child)
  return child.exitCode !== 0
}

/** Runs mutants, prints each outcome as it is known, and returns them all. */
export const runMutants = async (mutants: ReadonlyArray<Mutant>): Promise<ReadonlyArray<Outcome>> => {
  const copies = mkdtempSync(path.join(tmpdir(), "countersign-mutants-"))
  const running = new Set<ChildProcess>()
  const clean = () => {
    for (const child of running) child.kill("SIGKILL")
    rmSync(copies, { recursive: true, force: true })
  }
  process.once("exit", clean)
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1))

  // A test that fails anyway would kill every mutant.
  const first = path.join(copies, "0")
  copyCheckout(first)
  for (const test of new Set(mutants.flatMap(({ tests }) => tests))) {
    if (await fails(first, test, running)) throw new Error(`test/${test} fails without a mutant`)
  }

  const left = [...mutants]
  const outcomes: Array<Outcome> = []
  const work = async (worker: number) => {
    const directory = path.join(copies, String(worker))
    if (directory !== first) copyCheckout(directory)
    for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
      const file = path.join(directory, "src", mutant.file)
      const source = readFileSync(file, "utf8")
      writeFileSync(file, mutate(source, mutant))
      let killedBy: string | undefined
      const begin = performance.now()
      for (const test of mutant.tests) {
        if (!(await fails(directory, test, running))) continue
        killedBy = test
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
  return outcomes
}

const report = (mutant: Mutant, killedBy: string | undefined): string => {
  const outcome =
    killedBy === undefined ? (mutant.equivalent === undefined ? "SURVIVED  " : "equivalent") : "killed    "
  const reason = killedBy === undefined ? (mutant.equivalent ?? "") : `by test/${killedBy}`
  return `${outcome} src/${mutant.file}: ${mutant.from.replaceAll(/\s+/g, " ")} → ${mutant.to.replaceAll(/\s+/g, " ") || "(removed)"} ${reason}`
}
