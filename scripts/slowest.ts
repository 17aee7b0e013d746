/** Writes the test files that took longest in the last run of the gate to `test/support/slowest.json`, the slowest first. */
import { Schema } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { cache, root } from "./steps.ts"

/** Files that take less end at about the same time in any order. */
const SHORTEST_MILLIS = 5_000

const Results = Schema.fromJsonString(
  Schema.Struct({
    testResults: Schema.Array(
      Schema.Struct({ name: Schema.String, startTime: Schema.Finite, endTime: Schema.Finite })
    )
  })
)

const { testResults } = Schema.decodeUnknownSync(Results)(
  readFileSync(path.join(cache, "vitest.json"), "utf8")
)
const slowest = testResults
  .map(({ endTime, name, startTime }) => ({ file: path.relative(root, name), millis: endTime - startTime }))
  .filter(({ millis }) => millis >= SHORTEST_MILLIS)
  .toSorted((one, other) => other.millis - one.millis)
  .map(({ file }) => file)
writeFileSync(path.join(root, "test", "support", "slowest.json"), `${JSON.stringify(slowest, null, 2)}\n`)
process.stdout.write(`${slowest.length} files\n`)
