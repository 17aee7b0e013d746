import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { statfsSync } from "node:fs"
import path from "node:path"
import { diskFree, newestBackup } from "../../../src/server/observability/metricDefinitions.ts"
import { layerRegistry } from "../../../src/server/observability/Metrics.ts"
import { writeNewestBackup } from "../../../src/server/store/dataDirectory.ts"
import { makeDataDirectoryCollector } from "../../../src/server/store/dataDirectoryCollector.ts"
import { dataDirectory } from "../../support/embeddedPostgres.ts"

const gauges = Effect.gen(function* () {
  const registry = yield* Metric.MetricRegistry
  const free = (yield* Metric.value(diskFree)).value
  const backup = (yield* Metric.value(newestBackup)).value
  return { free, backup, count: registry.size }
})

describe("the metrics of an embedded database", () => {
  it.live("show the free disk and the newest backup, and 0 before the first one", () =>
    Effect.gen(function* () {
      const dataDir = yield* dataDirectory
      // The directory is created by the first start.
      const collect = makeDataDirectoryCollector({ kind: "embedded", dataDir: path.join(dataDir, "data") })
      yield* collect
      const { bavail, blocks, bsize } = statfsSync(dataDir)
      const { backup, free } = yield* gauges
      assert.strictEqual(backup, 0)
      assert.isAtMost(Math.abs(free - bavail * bsize), 0.05 * blocks * bsize)
      yield* Effect.promise(() => writeNewestBackup(dataDir, 1_700_000_000_000))
      yield* makeDataDirectoryCollector({ kind: "embedded", dataDir })
      assert.strictEqual((yield* gauges).backup, 1_700_000_000)
    }).pipe(Effect.scoped, Effect.provide(layerRegistry))
  )
})
