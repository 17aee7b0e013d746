/**
 * Checks histories with Porcupine (https://github.com/anishathalye/porcupine), an independent checker in Go. The models
 * stay here: Go gets each object as a table of states.
 */
import { spawnSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import type { ObjectReport } from "./check.ts"

const source = fileURLToPath(new URL("porcupine", import.meta.url))

/** Whether Go is installed. */
export const isGoInstalled = (): boolean => spawnSync("go", ["version"], { stdio: "ignore" }).status === 0

/** Builds the Go program; its module is downloaded if it is not there. Returns the reason of a failure. */
const buildProgram = (program: string): string | undefined => {
  const { status, stderr } = spawnSync("go", ["build", "-o", program, "."], { cwd: source, encoding: "utf8" })
  return status === 0 ? undefined : stderr.trim()
}

/** What Porcupine found. */
export type PorcupineResult =
  | { readonly _tag: "NotRun"; readonly reason: string }
  | {
      readonly _tag: "Checked"
      readonly objects: number
      /** Objects with too many states for a table. */
      readonly skipped: number
      /** Objects on which the two checkers differ. */
      readonly different: ReadonlyArray<string>
      readonly seconds: number
    }

/** Checks the objects of a run with Porcupine, and compares its verdicts. `cache` keeps the built program. */
export const checkWithPorcupine = (objects: ReadonlyArray<ObjectReport>, cache: string): PorcupineResult => {
  if (!isGoInstalled()) return { _tag: "NotRun", reason: "Go is not installed" }
  mkdirSync(cache, { recursive: true })
  const program = path.join(cache, "porcupine")
  const failure = buildProgram(program)
  if (failure !== undefined) return { _tag: "NotRun", reason: failure }
  const tables = objects.flatMap(({ object, table, verdict }) => {
    const found = table()
    return found === undefined ? [] : [{ object, verdict, table: found }]
  })
  const file = path.join(cache, "histories.json")
  writeFileSync(file, JSON.stringify(tables.map(({ object, table }) => ({ object, ...table }))))
  const began = performance.now()
  const { error, status, stderr, stdout } = spawnSync(program, [file], {
    encoding: "utf8",
    maxBuffer: 64 * 2 ** 20
  })
  if (error !== undefined || status !== 0) {
    return { _tag: "NotRun", reason: error?.message ?? stderr.trim() }
  }
  const verdicts = stdout.trim().split("\n")
  return {
    _tag: "Checked",
    objects: tables.length,
    skipped: objects.length - tables.length,
    different: tables.flatMap(({ object, verdict }, index) => {
      const other = verdicts[index] ?? "nothing"
      const isUndecided = verdict === "Undecided" || other === "Unknown"
      return isUndecided || (verdict === "Linearizable") === (other === "Ok")
        ? []
        : [`${object}: ${verdict} here, ${other} by Porcupine`]
    }),
    seconds: (performance.now() - began) / 1_000
  }
}
