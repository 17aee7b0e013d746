/**
 * Runs every operation of the service on a Citus cluster, and what a cluster does while it is used: organizations that move between
 * workers, a worker that is added, replicas that are killed, a dump, a worker that stops and starts.
 *
 *     npm run citus -- --url postgres://postgres@coordinator/postgres
 *     npm run citus -- --url … --stop "ssh one systemctl stop postgresql" --start "ssh one systemctl start postgresql"
 *
 * The URL is of a database on the coordinator that has the extension and all workers, with a role that may create databases on each node:
 * each test creates one and drops it. `--stop` and `--start` are shell commands for one worker; without them, that test is skipped.
 */
import { failUsage, parseOptions } from "./parseOptions.ts"
import { runTest } from "./runTest.ts"

const { values } = parseOptions(import.meta.filename, {
  options: { url: { type: "string" }, stop: { type: "string" }, start: { type: "string" } }
})
const { start, stop, url } = values
if (url === undefined) failUsage(import.meta.filename, "--url is missing")

runTest("test/faults/Citus.test.ts", {
  COUNTERSIGN_TEST_CITUS_URL: url,
  COUNTERSIGN_TEST_CITUS_STOP: stop,
  COUNTERSIGN_TEST_CITUS_START: start
})
