import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"

/** Runs one test file, with variables besides those of this process. The process exits with the status of the test. */
export const runTest = (file: string, variables: Readonly<Record<string, string | undefined>>): void => {
  const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url))
  const { status } = spawnSync(process.execPath, [vitest, "run", file], {
    stdio: "inherit",
    cwd: fileURLToPath(new URL("..", import.meta.url)),
    env: { ...process.env, ...variables }
  })
  process.exitCode = status ?? 1
}
