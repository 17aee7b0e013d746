/**
 * A process that runs test files of its copy of the checkout, one after the other, in one Vitest. So the migrated
 * template of databases and the transformed sources are made once, and not again for each mutant.
 */
import { createVitest } from "vitest/node"
import type { TestRequest, TestResult } from "./run.ts"

/**
 * The first test that failed, which the results of a cancelled run do not always show, and the cancellation of the rest
 * of its file: the next file must not start before it has ended.
 */
let failed: { readonly test: string; readonly cancelled: Promise<void> } | undefined
let passed = 0

/** What Vitest has reported meanwhile. */
const firstFailure = () => failed
const passedTests = () => passed

const vitest = await createVitest("test", {
  watch: false,
  maxWorkers: 1,
  reporters: [
    {
      // Vitest's `bail` counts the failures of earlier runs too.
      onTestCaseResult: (testCase) => {
        const { state } = testCase.result()
        if (state === "passed") passed++
        if (state !== "failed") return
        failed ??= { test: testCase.fullName, cancelled: vitest.cancelCurrentRun("test-failure") }
      }
    }
  ]
})
await vitest.standalone()

/** The source of the mutant before. It is as it was again. */
let restored: string | undefined

/** Runs a test file or one of its tests, after a source has changed. */
const run = async ({ changed, name, test }: TestRequest): Promise<TestResult> => {
  for (const file of [restored, changed]) if (file !== undefined) vitest.invalidateFile(file)
  restored = changed
  failed = undefined
  passed = 0
  const specifications = await vitest.globTestSpecifications([test])
  for (const specification of specifications) {
    specification.testNames = name === undefined ? undefined : [name]
  }
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications)
  const first = firstFailure()
  if (first !== undefined) {
    await first.cancelled
    return { failure: { name: first.test } }
  }
  // The result has the modules of earlier runs too.
  const module = testModules.find(({ moduleId }) => moduleId === specifications[0]?.moduleId)
  const isFine = module?.ok() === true && unhandledErrors.length === 0 && passedTests() > 0
  return { failure: isFine ? undefined : { fault: "an error outside of its tests" } }
}

process.on("message", (request: TestRequest) => {
  void run(request)
    .catch((): TestResult => ({ failure: { fault: "an error of the test runner" } }))
    .then((result) => process.send?.(result))
})
process.on("disconnect", () => void vitest.close().finally(() => process.exit()))
