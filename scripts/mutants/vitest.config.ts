import { defineConfig } from "vitest/config"

/** Runs the test files that `scripts/mutants.ts` chose, each in a process of its own: a mutant may change a value that its module computes once. */
export default defineConfig({
  test: {
    globalSetup: ["test/support/postgres.setup.ts"],
    setupFiles: ["test/support/properties.setup.ts"],
    include: (process.env["COUNTERSIGN_MUTANTS_TESTS"] ?? "").split(","),
    testTimeout: 120_000,
    hookTimeout: 120_000
  }
})
