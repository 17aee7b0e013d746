/**
 * The gate (`npm test`): runs every check, the fastest first, each with a headline and its time, and stops at the first failure. The last
 * line is `N passed, N failed`.
 */
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const cache = path.join(root, "node_modules", ".cache")
const results = path.join(cache, "vitest.json")

/** A step of the gate. `unless` is the reason why it cannot run on this machine; it is then skipped and the reason printed. */
interface Step {
  readonly name: string
  readonly command: ReadonlyArray<string>
  readonly unless?: string | undefined
}

/** A program that npm installed, in `root` or in another folder with a package of its own. */
const program = (name: string, directory = root) => {
  const windows = process.platform === "win32"
  return path.join(directory, "node_modules", ".bin", windows ? `${name}.cmd` : name)
}

/** Effect's diagnostics of a TypeScript project. */
const effectDiagnostics = (project: string) => [
  program("effect-tsgo", path.join(root, "scripts", "lint")),
  ...["diagnostics", "--project", project, "--format", "text", "--strict", "--severity", "error,warning"]
]

/** Drift check of a generated file: fails if the committed file differs from the script's output. */
const generated = (name: string, file: string): Step => ({
  name,
  command: [process.execPath, path.join("scripts", file), "--check"],
  unless: existsSync(path.join(root, "scripts", file)) ? undefined : `scripts/${file} is missing`
})

const has = (tool: string) => spawnSync(tool, ["--version"], { stdio: "ignore" }).status === 0

const steps: ReadonlyArray<Step> = [
  generated("lockfile", "lockfile.ts"),
  { name: "format", command: [program("prettier"), "--check", "--log-level=warn", "."] },
  { name: "types", command: [program("tsc"), "--noEmit"] },
  // Published types must be expressible in declaration files; the documents' TypeScript is compiled against them.
  {
    name: "declarations",
    command: [program("tsc"), "-p", "tsconfig.build.json", "--outDir", path.join(cache, "declarations")]
  },
  {
    name: "documents: TypeScript",
    command: [process.execPath, path.join("scripts", "docs", "typescript.ts")]
  },
  { name: "documents: references", command: [process.execPath, path.join("scripts", "docs", "links.ts")] },
  generated("documents: generated tables", path.join("docs", "generate.ts")),
  { name: "examples: types", command: [program("tsc"), "--noEmit", "-p", "examples"] },
  { name: "benchmarks: types", command: [program("tsc"), "--noEmit", "-p", path.join("scripts", "bench")] },
  { name: "Effect's diagnostics", command: effectDiagnostics("tsconfig.json") },
  {
    name: "benchmarks: Effect's diagnostics",
    command: effectDiagnostics(path.join("scripts", "bench", "tsconfig.json"))
  },
  {
    name: "lint",
    command: [program("oxlint"), "--type-aware", "--deny-warnings", "--report-unused-disable-directives"]
  },
  {
    name: "flake",
    command: ["nix-instantiate", "--parse", "flake.nix", "nix/package.nix", "nix/module.nix"],
    unless: has("nix-instantiate") ? undefined : "nix-instantiate is not installed"
  },
  generated("openapi.json", "openapi.ts"),
  generated("client", path.join("client", "generate.ts")),
  generated("schema.sql", "schema.ts"),
  generated("THIRD_PARTY_LICENSES", path.join("package", "notices.ts")),
  { name: "mutants: list", command: [process.execPath, path.join("scripts", "mutants.ts"), "--check"] },
  {
    name: "documents: commands",
    command: [process.execPath, path.join("scripts", "docs", "shell.ts")],
    unless: ["bash", "curl", "jq"].every(has) ? undefined : "bash, curl or jq is not installed"
  },
  {
    name: "generated clients",
    command: [process.execPath, path.join("scripts", "clients.ts"), "--installed"],
    unless: existsSync(path.join(cache, "clients"))
      ? undefined
      : "their generators are not installed: `npm run clients` installs them"
  },
  {
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
]

const say = (line: string) => process.stdout.write(`${line}\n`)

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
for (const { command, name, unless } of steps) {
  if (unless !== undefined) {
    say(`== ${name}: skipped, ${unless}`)
    continue
  }
  say(`== ${name}`)
  const began = performance.now()
  const [file = "", ...args] = command
  // nix-instantiate prints the parsed expression; only its errors matter.
  const stdout = name === "flake" ? "ignore" : "inherit"
  const { error, status } = spawnSync(file, args, {
    cwd: root,
    stdio: ["ignore", stdout, "inherit"],
    shell: process.platform === "win32"
  })
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  const failed = error !== undefined || status !== 0
  say(`== ${name}: ${failed ? "FAILED" : "ok"} (${seconds} s)`)
  if (name === "tests" && existsSync(results)) count()
  if (failed) {
    process.exitCode = status ?? 1
    break
  }
}
