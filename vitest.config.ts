import { existsSync } from "node:fs"
import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import type { Plugin } from "vite"
import { defineConfig } from "vitest/config"
import { generate } from "./scripts/setup.js"
import { SlowestFirst } from "./test/support/SlowestFirst.ts"

/** These stop, starve or disconnect databases and processes, and assert what happens in time. Others beside them slow all of that. */
const TIMED = [
  "test/faults/{DeadConnections,Delivery,Disk,Pooler}.test.ts",
  "test/server/delivery/Delivery/Shards.test.ts"
]

/** Proofs that take long and that a change seldom breaks: `npm run verify` runs them, `npm test` does not. */
const LONG = [
  "test/cli/hook/codingAgents.test.ts",
  "test/console/firefox.test.ts",
  "test/e2e/Backup.test.ts",
  "test/faults/{Adapters,Citus,chaos,FailingDisk,linearizability,PostgresVersions,Standby}.test.ts",
  "test/scripts/{image/image,packedTests}.test.ts",
  "test/testing/temporaryDirectory.test.ts"
]

/** These read or change something of their whole process: memory, environment, hooks, metrics. */
const OWN_PROCESS = [
  "test/{support,testing}/**/*.test.ts",
  "test/cli/{log,originalStack,stdout}.test.ts",
  "test/cli/serve/layerIdleHeapTrim.test.ts",
  "test/faults/robustness.test.ts",
  "test/server/egress/Egress.test.ts",
  "test/server/notifications/Notifications/{RecentEvents,hostile}.test.ts",
  "test/server/observability/*.test.ts",
  "test/server/tasks/Runs/layerRunSpans.test.ts"
]

const ALL = ["test/**/*.test.ts"]

/** These run a second time with the statements of a Citus cluster, which PostgreSQL runs too. */
const BOTH_FORMS = [
  "test/server/approvals/{Approvals,Budgets,Claims,Steps}.test.ts",
  "test/server/delivery/Delivery.test.ts",
  "test/server/delivery/Delivery/{DeliveryQueue,Finisher,Replay,capacity,deliveryCounts}.test.ts",
  "test/server/notifications/Notifications.test.ts",
  "test/server/tasks/Runs.test.ts"
]

/** Packages have tests too. `exclude` replaces Vitest's own default, which has this. */
const PACKAGES = "**/node_modules/**"
const cores = availableParallelism()

/** Many tests wait most of their time: for a lease, a deadline, a page. */
const maxWorkers = Math.ceil(cores * 1.5)

// A test never sees the generated files of an earlier contract.
generate()

/** Says how to install the agent frameworks, where an import of one finds none. Runs after all resolvers that know files and packages. */
const frameworks: Plugin = {
  name: "countersign:frameworks",
  enforce: "post",
  resolveId: (source, importer = "") => {
    if (!importer.includes("/test/adapters/") || existsSync("test/adapters/node_modules")) return
    throw new Error(
      `Cannot find ${source}: install the agent frameworks by "node scripts/setup.js frameworks".`
    )
  }
}

/**
 * Tests mirror `src` path for path. Each test file that uses the database gets its own, cloned from a template that the global set-up
 * migrates once (`test/support/postgres.setup.ts`).
 *
 * Files share worker processes, because importing and compiling the service takes longer than most files run. So a test file leaves
 * nothing behind in its process; one that cannot is listed in `OWN_PROCESS`.
 */
export default defineConfig({
  plugins: [frameworks],
  test: {
    globalSetup: ["test/support/postgres.setup.ts"],
    setupFiles: ["test/support/properties.setup.ts"],
    // So that a test that hangs ends. A passing one takes a tenth of it, also on a slow and busy machine.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Processes that tests start find compiled code here: compiling takes half of a start.
    env: {
      NODE_COMPILE_CACHE: fileURLToPath(new URL("node_modules/.cache/test-processes", import.meta.url))
    },
    sequence: { sequencer: SlowestFirst },
    provide: { clusterForms: false },
    reporters: ["default", "./test/support/guarantees/GuaranteesReporter.ts"],
    projects: [
      {
        extends: true,
        test: {
          name: "shared",
          include: ALL,
          exclude: [PACKAGES, ...OWN_PROCESS, ...TIMED, ...LONG],
          isolate: false,
          maxWorkers
        }
      },
      {
        extends: true,
        test: {
          name: "cluster",
          include: BOTH_FORMS,
          exclude: [PACKAGES],
          isolate: false,
          maxWorkers,
          provide: { clusterForms: true }
        }
      },
      {
        extends: true,
        test: {
          name: "own process",
          include: OWN_PROCESS,
          exclude: [PACKAGES, ...TIMED, ...LONG],
          maxWorkers
        }
      },
      {
        extends: true,
        test: {
          name: "timed",
          include: TIMED,
          exclude: [PACKAGES],
          maxWorkers: cores,
          sequence: { groupOrder: 1 }
        }
      },
      {
        extends: true,
        test: {
          name: "long",
          include: LONG,
          exclude: [PACKAGES],
          maxWorkers: 1,
          sequence: { groupOrder: 2 }
        }
      }
    ]
  }
})
