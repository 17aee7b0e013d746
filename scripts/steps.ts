/** Steps of the gate (`check.ts`) and of the long proofs (`verify.ts`): each is a program that passes or fails, with a headline and its time. */
import { spawn, spawnSync } from "node:child_process"
import { mkdirSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("..", import.meta.url))

export const cache = path.join(root, "node_modules", ".cache")
mkdirSync(cache, { recursive: true })

export interface Step {
  readonly name: string
  readonly command: ReadonlyArray<string>
  /** Environment variables besides those of this process. */
  readonly environment?: Readonly<Record<string, string>>
  /** The reason why the step cannot run on this machine; it is then skipped and the reason printed. */
  readonly unless?: string | undefined
  /** The name of the step whose output this one reads. */
  readonly after?: string
}

/** A program that npm installed, in `root` or in another folder with a package of its own. */
export const program = (name: string, directory = root) => {
  const windows = process.platform === "win32"
  return path.join(directory, "node_modules", ".bin", windows ? `${name}.cmd` : name)
}

/** The command of a script of this folder. */
export const script = (file: string, ...args: ReadonlyArray<string>): ReadonlyArray<string> => [
  process.execPath,
  path.join("scripts", file),
  ...args
]

export const has = (tool: string) => spawnSync(tool, ["--version"], { stdio: "ignore" }).status === 0

export const say = (line: string) => process.stdout.write(`${line}\n`)

/** Runs a step and prints its result. `output` is printed as it comes, or at the end in one piece. Returns whether the step passed. */
export const runStep = async (
  { command, environment, name, unless }: Step,
  output: "live" | "at the end"
): Promise<boolean> => {
  if (unless !== undefined) {
    say(`== ${name}: skipped, ${unless}`)
    return true
  }
  if (output === "live") say(`== ${name}`)
  const began = performance.now()
  const [file = "", ...args] = command
  const child = spawn(file, args, {
    cwd: root,
    env: { ...process.env, ...environment },
    stdio: output === "live" ? ["ignore", "inherit", "inherit"] : ["ignore", "pipe", "pipe"],
    shell: process.platform === "win32"
  })
  const printed: Array<string> = []
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (text: string) => printed.push(text))
  const hasPassed = await new Promise<boolean>((resolve) => {
    child.once("error", ({ message }) => {
      printed.push(message)
      resolve(false)
    })
    child.once("close", (code) => resolve(code === 0))
  })
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  const text = printed.join("").trimEnd()
  if (text !== "") say(`== ${name}\n${text}`)
  say(`== ${name}: ${hasPassed ? "ok" : "FAILED"} (${seconds} s)`)
  return hasPassed
}

/** Runs steps, at most `concurrency` at a time. After a failure it starts no further one. Returns the names of those that failed. */
export const runSteps = async (
  steps: ReadonlyArray<Step>,
  concurrency: number
): Promise<ReadonlyArray<string>> => {
  const waiting = [...steps]
  const ended = new Set<string>()
  const failed: Array<string> = []
  const running = new Set<Promise<void>>()
  const start = async (step: Step) => {
    const hasPassed = await runStep(step, "at the end")
    ended.add(step.name)
    if (!hasPassed) failed.push(step.name)
  }
  while (running.size > 0 || (waiting.length > 0 && failed.length === 0)) {
    const next = waiting.findIndex(({ after }) => after === undefined || ended.has(after))
    if (failed.length === 0 && running.size < concurrency && next >= 0) {
      const [step] = waiting.splice(next, 1)
      if (step === undefined) break
      const one = start(step).finally(() => running.delete(one))
      running.add(one)
    } else await Promise.race(running)
  }
  return failed
}
