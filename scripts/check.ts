/**
 * The gate (`npm test`): runs every check and the tests, each with a headline and its time. The last line is `N passed, N failed`.
 *
 * First come the checks of a second or two, as many at the same time as the machine has cores; if one fails, nothing else runs. The long
 * checks then run one after another beside the tests, most of which wait for processes, pages and deadlines. Tests that need the machine
 * for themselves come last (`vitest.config.ts`), after the long checks have ended. `npm run verify` runs what takes longer.
 */
import { spawnSync } from "node:child_process"
import { existsSync, rmSync } from "node:fs"
import { availableParallelism } from "node:os"
import path from "node:path"
import { cache, has, program, root, runStep, runSteps, say, script, type Step } from "./steps.ts"
import { readTestResults, resultsFile } from "./testResults.ts"

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

/** For programs in Go that run beside the tests: a seldom collected heap and a single thread take a quarter less processor time. */
const besideTests = { GOMAXPROCS: "1", GOGC: "400" }

/** Drift check of a generated file: fails if the committed file differs from the script's output. */
const generated = (name: string, file: string): Step => ({
  name,
  command: script(file, "--check"),
  unless: existsSync(path.join(root, "scripts", file)) ? undefined : `scripts/${file} is missing`
})

const quickChecks: ReadonlyArray<Step> = [
  { name: "format", command: [program("oxfmt"), "--check"] },
  generated("lockfile", "lockfile.ts"),
  { name: "documents: references", command: script(path.join("docs", "links.ts")) },
  generated("THIRD_PARTY_LICENSES", path.join("package", "notices.ts")),
  generated("documents: generated tables", path.join("docs", "generate.ts")),
  generated("openapi.json", "openapi.ts"),
  generated("schema.sql", "schema.ts"),
  {
    name: "flake",
    command: ["nix-instantiate", "--parse", "flake.nix", "nix/package.nix", "nix/module.nix"],
    unless: has("nix-instantiate") ? undefined : "nix-instantiate is not installed"
  }
]

/** Those that compute come before the one that mostly waits, which disturbs the last tests least. */
const longChecks: ReadonlyArray<Step> = [
  // The benchmarks and the examples too: one program, because each would check most of the sources again.
  {
    name: "types and Effect's diagnostics",
    command: typesAndDiagnostics("tsconfig.gate.json"),
    environment: besideTests
  },
  // Published types must be expressible in declaration files; the documents' TypeScript is compiled against them. `--noCheck` leaves out
  // what the step above has found.
  {
    name: "declarations",
    command: [
      ...[program("tsc"), "-p", "tsconfig.build.json", "--noCheck"],
      ...["--outDir", path.join(cache, "declarations")]
    ],
    environment: besideTests
  },
  {
    name: "documents: TypeScript",
    command: script(path.join("docs", "typescript.ts")),
    after: "declarations"
  },
  {
    name: "lint",
    command: [program("oxlint"), "--type-aware", "--deny-warnings", "--report-unused-disable-directives"],
    environment: besideTests
  },
  {
    name: "documents: commands",
    command: script(path.join("docs", "shell.ts")),
    unless: ["bash", "curl", "jq"].every(has) ? undefined : "bash, curl or jq is not installed"
  }
]

const tests: Step = {
  name: "tests",
  command: [
    program("vitest"),
    "run",
    "--project=!long",
    "--reporter=default",
    "--reporter=json",
    "--reporter=./test/support/guarantees/GuaranteesReporter.ts",
    `--outputFile.json=${resultsFile}`
  ]
}

/** Prints the tests that failed, again after all output, and the counts of the test run. */
const count = () => {
  const { files, numFailedTests, numPassedTests, numPendingTests, numTodoTests } = readTestResults()
  for (const { assertionResults, file, status } of files) {
    const names = assertionResults.filter((test) => test.status === "failed").map(({ fullName }) => fullName)
    if (status === "failed")
      for (const name of names.length > 0 ? names : [""]) say(`FAILED: ${file} ${name}`)
  }
  const skipped = numPendingTests + numTodoTests
  if (skipped > 0) say(`${skipped} skipped`)
  say(`${numPassedTests} passed, ${numFailedTests} failed`)
}

// Results of an earlier run must not be printed if the tests do not run.
rmSync(resultsFile, { force: true })
const failed = [...(await runSteps(quickChecks, availableParallelism()))]
if (failed.length === 0) {
  const [ofChecks, havePassed] = await Promise.all([runSteps(longChecks, 1), runStep(tests, "live")])
  failed.push(...ofChecks, ...(havePassed ? [] : [tests.name]))
}
if (failed.length > 0) {
  say(`FAILED: ${failed.join(", ")}`)
  process.exitCode = 1
}
if (existsSync(resultsFile)) count()
