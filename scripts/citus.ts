/**
 * Runs every operation of the service on a Citus cluster, and what a cluster does while it is used: two replicas, organizations that move
 * between workers, a worker that stops and starts.
 *
 *     npm run citus -- --url postgres://postgres@coordinator/postgres
 *     npm run citus -- --url … --stop "ssh one systemctl stop postgresql" --start "ssh one systemctl start postgresql"
 *
 * The URL is of a database on the coordinator that has the extension and all workers, with a role that may create databases on each node:
 * each test creates one and drops it. `--stop` and `--start` are shell commands for one worker; without them, that test is skipped.
 */
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { failUsage, parseOptions } from "./parseOptions.ts"

const { values } = parseOptions(import.meta.filename, {
  options: { url: { type: "string" }, stop: { type: "string" }, start: { type: "string" } }
})
const { start, stop, url } = values
if (url === undefined) failUsage(import.meta.filename, "--url is missing")

const { status } = spawnSync(
  process.execPath,
  [
    fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url)),
    "run",
    "test/faults/Citus.test.ts"
  ],
  {
    stdio: "inherit",
    cwd: fileURLToPath(new URL("..", import.meta.url)),
    env: {
      ...process.env,
      COUNTERSIGN_TEST_CITUS_URL: url,
      ...(stop === undefined ? {} : { COUNTERSIGN_TEST_CITUS_STOP: stop }),
      ...(start === undefined ? {} : { COUNTERSIGN_TEST_CITUS_START: start })
    }
  }
)
process.exitCode = status ?? 1
