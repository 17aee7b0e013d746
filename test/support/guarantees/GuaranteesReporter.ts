import type { Reporter, TestModule, Vitest } from "vitest/node"
import { guarantees } from "./guarantees.ts"
import { type TestOutcome, unproven } from "./unproven.ts"

/**
 * Fails a run in which a guarantee of docs/guarantees.md has no passed proof. It reads the results of the tests that ran anyway. A run of single
 * tests by name (`-t`) and a shard are not checked; a run of some files or of the project `long` only for the proofs in it.
 */
export default class GuaranteesReporter implements Reporter {
  #vitest: Vitest | undefined
  #started = 0

  onInit(vitest: Vitest): void {
    this.#vitest = vitest
  }

  onTestRunStart(specifications: ReadonlyArray<unknown>): void {
    this.#started = specifications.length
  }

  async onTestRunEnd(testModules: ReadonlyArray<TestModule>): Promise<void> {
    const vitest = this.#vitest
    if (
      vitest === undefined ||
      vitest.config.testNamePattern !== undefined ||
      vitest.config.shard !== undefined
    )
      return
    const all = await vitest.globTestSpecifications()
    const results = new Map<string, ReadonlyArray<TestOutcome>>()
    for (const { children, relativeModuleId } of testModules) {
      const outcomes = Array.from(children.allTests(), (test) => ({
        name: test.fullName,
        state: test.result().state
      }))
      results.set(relativeModuleId, outcomes)
    }
    const faults = unproven(guarantees, results, {
      isComplete: this.#started >= all.length && !vitest.config.project.includes("long"),
      isRoot: process.getuid?.() === 0
    })
    if (faults.length === 0) return
    vitest.logger.error(
      `Guarantees of docs/guarantees.md without proof:\n${faults.map((fault) => `  ${fault}`).join("\n")}`
    )
    process.exitCode = 1
  }
}
