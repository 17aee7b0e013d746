/**
 * Breaks the source, one place at a time in a copy of the checkout, and runs the tests that should notice. A mutant that
 * survives shows what no test holds.
 *
 *     npm run mutants -- src/domain/delivery              the files of a folder
 *     npm run mutants -- src/domain/Ids.ts:20-40          lines of a file
 *     npm run mutants -- src/domain/delivery --workers 1  to leave processors to others
 *     npm run mutants -- sql                              the statements in scripts/mutants/list.ts
 *     npm run mutants -- sql Grants                       those whose file or text contains a word
 *
 * StrykerJS breaks every expression of a path. The tests are those at the same path in `test`, or at the nearest folder
 * above it that has tests, and those that `--tests` names, which may be repeated.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { existsSync, statSync } from "node:fs"
import { availableParallelism } from "node:os"
import path from "node:path"
import { mutants, root } from "./mutants/list.ts"
import { failUsage, parseOptions } from "./parseOptions.ts"

const stryker = "scripts/mutants/node_modules/@stryker-mutator/core/bin/stryker.js"

/** `src/a/B.ts:3-5` → `src/a/B.ts`. */
const withoutLines = (place: string): string => place.replace(/:.*/, "")

const isFolder = (place: string): boolean => statSync(path.join(root, place)).isDirectory()

/** The test files of a path without `.ts` or `.test.ts`, as patterns; of the folder above if it has none. */
const testsOf = (place: string): ReadonlyArray<string> => {
  const found = [
    ...(existsSync(path.join(root, `${place}.test.ts`)) ? [`${place}.test.ts`] : []),
    ...(existsSync(path.join(root, place)) ? [`${place}/**/*.test.ts`] : [])
  ]
  return found.length > 0 ? found : testsOf(path.posix.dirname(place))
}

const { positionals, values } = parseOptions(import.meta.filename, {
  allowPositionals: true,
  options: {
    tests: { type: "string", multiple: true, default: [] },
    workers: { type: "string" }
  }
})
const [first, ...words] = positionals
if (first === undefined) failUsage(import.meta.filename, 'Name a file or a folder of src, or "sql"')
if (values.workers !== undefined && !(Number(values.workers) >= 1))
  failUsage(import.meta.filename, `--workers is a number, not ${values.workers}`)

const runSql = async (): Promise<void> => {
  const chosen = mutants.filter(
    ({ file, from }) => words.length === 0 || words.some((word) => `${file} ${from}`.includes(word))
  )
  if (chosen.length === 0) failUsage(import.meta.filename, `No mutant contains ${words.join(" or ")}`)
  // Only here, because it loads the service.
  const { runMutants } = await import("./mutants/run.ts")
  NodeRuntime.runMain(
    Effect.map(runMutants(chosen, Number(values.workers ?? availableParallelism())), (areKilled) => {
      if (!areKilled) process.exitCode = 1
    })
  )
}

const runStryker = (): void => {
  for (const place of positionals) {
    if (!place.startsWith("src/") || !existsSync(path.join(root, withoutLines(place))))
      failUsage(import.meta.filename, `${place} is no file or folder of src`)
  }
  for (const test of values.tests) {
    if (!test.startsWith("test/") || !existsSync(path.join(root, test)))
      failUsage(import.meta.filename, `${test} is no file or folder of test`)
  }
  const tests = [
    ...positionals.map((place) => withoutLines(place).replace(/^src/, "test")),
    ...values.tests
  ].flatMap((place) => testsOf(place.replace(/(\.test)?\.tsx?$/, "")))
  const mutated = positionals.map((place) => (isFolder(withoutLines(place)) ? `${place}/**/*.ts` : place))
  const concurrency = values.workers === undefined ? [] : ["--concurrency", values.workers]
  const { status } = spawnSync(
    process.execPath,
    [stryker, "run", "scripts/mutants/stryker.config.json", "--mutate", mutated.join(","), ...concurrency],
    {
      cwd: root,
      env: { ...process.env, COUNTERSIGN_MUTANTS_TESTS: [...new Set(tests)].join(",") },
      stdio: "inherit"
    }
  )
  process.exitCode = status ?? 1
}

if (first === "sql") await runSql()
else runStryker()
