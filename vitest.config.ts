import { defineConfig } from "vitest/config"

/**
 * Tests mirror `src` path for path. Every file that touches the store gets a database of its own, cloned from
 * a template that the global set-up migrates once (`test/support/postgres.setup.ts`).
 */
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/postgres.setup.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: ["default"]
  }
})
