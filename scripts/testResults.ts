/** What Vitest wrote about the last run of the gate's tests. */
import { Schema } from "effect"
import { readFileSync } from "node:fs"
import path from "node:path"
import { cache, root } from "./steps.ts"

export const resultsFile = path.join(cache, "vitest.json")

const Results = Schema.fromJsonString(
  Schema.Struct({
    numPassedTests: Schema.Finite,
    numFailedTests: Schema.Finite,
    numPendingTests: Schema.Finite,
    numTodoTests: Schema.Finite,
    testResults: Schema.Array(
      Schema.Struct({
        name: Schema.String,
        status: Schema.String,
        startTime: Schema.Finite,
        endTime: Schema.Finite,
        assertionResults: Schema.Array(Schema.Struct({ fullName: Schema.String, status: Schema.String }))
      })
    )
  })
)

/** Reads the results; the files of tests are named relative to the checkout. */
export const readTestResults = () => {
  const { testResults, ...counts } = Schema.decodeUnknownSync(Results)(readFileSync(resultsFile, "utf8"))
  return {
    ...counts,
    files: testResults.map(({ name, ...result }) => ({ file: path.relative(root, name), ...result }))
  }
}
