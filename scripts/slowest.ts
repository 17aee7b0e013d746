/** Writes the test files that took longest in the last run of the gate to `test/support/slowest.json`, the slowest first. */
import { writeFileSync } from "node:fs"
import path from "node:path"
import { root } from "./steps.ts"
import { readTestResults } from "./testResults.ts"

/** Files that take less end at about the same time in any order. */
const SHORTEST_MILLIS = 5_000

const slowest = readTestResults()
  .files.map(({ endTime, file, startTime }) => ({ file, millis: endTime - startTime }))
  .filter(({ millis }) => millis >= SHORTEST_MILLIS)
  .toSorted((one, other) => other.millis - one.millis)
  .map(({ file }) => file)
writeFileSync(path.join(root, "test", "support", "slowest.json"), `${JSON.stringify(slowest, null, 2)}\n`)
process.stdout.write(`${slowest.length} files\n`)
