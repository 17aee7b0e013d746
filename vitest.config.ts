import { defineConfig } from "vitest/config"

/**
 * Tests mirror `src` path for path. Each test file that uses the database gets its own, cloned from a template that the global set-up
 * migrates once (`test/support/postgres.setup.ts`).
 */
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/postgres.setup.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: ["default", "./test/support/guarantees/GuaranteesReporter.ts"]
  }
})
