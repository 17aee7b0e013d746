/**
 * The gate (`npm test`): runs every check, then the tests, each with a headline and its time, and stops at the first failure. The last
 * line is `N passed, N failed`.
 *
 * As many checks run at the same time as the machine has cores; the output of one is printed when it ends. The tests run alone, because
 * some of them have time limits.
 */
import { spawn, spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs"
import { availableParallelism } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const cache = path.join(root, "node_modules", ".cache")
const results = path.join(cache, "vitest.json")

/** A step of the gate. */
interface Step {
  readonly name: string
  readonly command: ReadonlyArray<string>
  /** The reason why the step cannot run on this machine; it is then skipped and the reason printed. */
  readonly unless?: string | undefined
  /** The name of the step whose output this one reads. */
  readonly after?: string
}

/** A program that npm installed, in `root` or in another folder with a package of its own. */
const program = (name: string, directory = root) => {
  const windows = process.platform === "win32"
  return path.join(directory, "node_modules", ".bin", windows ? `${name}.cmd` : name)
}

const effectTsgo = program("effect-tsgo", path.join(root, "scripts", "lint"))

/**
 * The build of `tsc` in `@effect/tsgo`: it is that of the installed TypeScript, and reports Effect's diagnostics among the errors, so that
 * one type check finds both. If it cannot be found, the step that runs `effect-tsgo` instead prints the reason.
 */
const effectTsc = (): string => {
  const { status, stdout } = spawnSync(effectTsgo, ["get-exe-path"], {
    cwd: root,
    encoding: "utf8",
    shell: process.platform === "win32"
  })
  return status === 0 ? stdout.trim() : effectTsgo
}

const tscWithDiagnostics = effectTsc()

/** Without build information, which does not say which diagnostics it was made with. */
const typesAndDiagnostics = (project: string): ReadonlyArray<string> => [
  tscWithDiagnostics,
  ...["--noEmit", "--project", project, "--incremental", "false", "--tsBuildInfoFile", "null"]
]

/** Drift check of a generated file: fails if the committed file differs from the script's output. */
const generated = (name: string, file: string): Step => ({
  name,
  command: [process.execPath, path.join("scripts", file), "--check"],
  unless: existsSync(path.join(root, "scripts", file)) ? undefined : `scripts/${file} is missing`
})

const has = (tool: string) => spawnSync(tool, ["--version"], { stdio: "ignore" }).status === 0

/** The checks: first those of a second, then those of many seconds. One that mostly waits runs beside those that compute. */
const checks: ReadonlyArray<Step> = [
  generated("lockfile", "lockfile.ts"),
  { name: "documents: references", command: [process.execPath, path.join("scripts", "docs", "links.ts")] },
  generated("THIRD_PARTY_LICENSES", path.join("package", "notices.ts")),
  generated("documents: generated tables", path.join("docs", "generate.ts")),
  generated("openapi.json", "openapi.ts"),
  generated("schema.sql", "schema.ts"),
  {
    name: "flake",
    command: ["nix-instantiate", "--parse", "flake.nix", "nix/package.nix", "nix/module.nix"],
    unless: has("nix-instantiate") ? undefined : "nix-instantiate is not installed"
  },
  {
    name: "documents: commands",
    command: [process.execPath, path.join("scripts", "docs", "shell.ts")],
    unless: ["bash", "curl", "jq"].every(has) ? undefined : "bash, curl or jq is not installed"
  },
  {
    name: "format",
    command: [
      ...[program("prettier"), "--check", "--log-level=warn"],
      ...["--cache", "--cache-strategy=content", `--cache-location=${path.join(cache, "prettier")}`, "."]
    ]
  },
  // The benchmarks and the examples too: one program, because each would check most of the sources again.
  { name: "types and Effect's diagnostics", command: typesAndDiagnostics("tsconfig.gate.json") },
  // Published types must be expressible in declaration files; the documents' TypeScript is compiled against them. `--noCheck` leaves out
  // what the step above has found.
  {
    name: "declarations",
    command: [
      ...[program("tsc"), "-p", "tsconfig.build.json", "--noCheck"],
      ...["--outDir", path.join(cache, "declarations")]
    ]
  },
  {
    name: "documents: TypeScript",
    command: [process.execPath, path.join("scripts", "docs", "typescript.ts")],
    after: "declarations"
  },
  {
    name: "lint",
    command: [program("oxlint"), "--type-aware", "--deny-warnings", "--report-unused-disable-directives"]
  },
  {
    name: "JSON Schema: test suite and second validator",
    command: [process.execPath, path.join("scripts", "schemas.ts"), "--installed"],
    unless: existsSync(path.join(cache, "schemas"))
      ? undefined
      : "they are not installed: `npm run schemas` installs them"
  },
  {
    name: "generated clients",
    command: [process.execPath, path.join("scripts", "clients.ts"), "--installed"],
    unless: existsSync(path.join(cache, "clients"))
      ? undefined
      : "their generators are not installed: `npm run clients` installs them"
  }
]

const tests: Step = {
  name: "tests",
  command: [
    program("vitest"),
    "run",
    "--reporter=default",
    "--reporter=json",
    "--reporter=./test/support/guarantees/GuaranteesReporter.ts",
    `--outputFile.json=${results}`
  ]
}

const say = (line: string) => process.stdout.write(`${line}\n`)

/** Runs a step and prints its result. `output` is printed as it comes, or at the end in one piece. Returns whether the step passed. */
const run = async ({ command, name, unless }: Step, output: "live" | "at the end"): Promise<boolean> => {
  if (unless !== undefined) {
    say(`== ${name}: skipped, ${unless}`)
    return true
  }
  if (output === "live") say(`== ${name}`)
  const began = performance.now()
  const [file = "", ...args] = command
  const child = spawn(file, args, {
    cwd: root,
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

/** Runs the checks, at most `concurrency` at a time. After a failure it starts no further one. Returns the names of those that failed. */
const runChecks = async (concurrency: number): Promise<ReadonlyArray<string>> => {
  const waiting = [...checks]
  const ended = new Set<string>()
  const failed: Array<string> = []
  const running = new Set<Promise<void>>()
  const runStep = async (step: Step) => {
    const hasPassed = await run(step, "at the end")
    ended.add(step.name)
    if (!hasPassed) failed.push(step.name)
  }
  while (running.size > 0 || (waiting.length > 0 && failed.length === 0)) {
    const next = waiting.findIndex(({ after }) => after === undefined || ended.has(after))
    if (failed.length === 0 && running.size < concurrency && next >= 0) {
      const [step] = waiting.splice(next, 1)
      if (step === undefined) break
      const one = runStep(step).finally(() => running.delete(one))
      running.add(one)
    } else await Promise.race(running)
  }
  return failed
}

/** Prints the counts of the test run. */
const count = () => {
  const found: unknown = JSON.parse(readFileSync(results, "utf8"))
  const number = (name: string) => {
    const value: unknown = typeof found === "object" && found !== null ? Reflect.get(found, name) : undefined
    return typeof value === "number" ? value : 0
  }
  const skipped = number("numPendingTests") + number("numTodoTests")
  if (skipped > 0) say(`${skipped} skipped`)
  say(`${number("numPassedTests")} passed, ${number("numFailedTests")} failed`)
}

mkdirSync(cache, { recursive: true })
// Results of an earlier run must not be printed if the tests do not run.
rmSync(results, { force: true })
const failed = await runChecks(availableParallelism())
if (failed.length > 0) {
  say(`FAILED: ${failed.join(", ")}`)
  process.exitCode = 1
} else {
  if (!(await run(tests, "live"))) process.exitCode = 1
  if (existsSync(results)) count()
}
