import { Effect, Metric } from "effect"
import { diskFree, newestBackup } from "../observability/metricDefinitions.ts"
import type { MetricCollector } from "../observability/Metrics.ts"
import { readDiskSpace, readNewestBackup } from "./dataDirectory.ts"

/** Updates the gauges of the disk and the backups of an embedded database. An external one has neither here. */
export const makeDataDirectoryCollector = (
  store:
    | { readonly kind: "external" }
    | {
        readonly kind: "embedded"
        readonly dataDir: string
      }
): MetricCollector =>
  store.kind === "external"
    ? Effect.void
    : Effect.gen(function* () {
        const { free } = yield* Effect.tryPromise(() => readDiskSpace(store.dataDir))
        yield* Metric.update(diskFree, free)
        const backup = yield* Effect.tryPromise(() => readNewestBackup(store.dataDir))
        yield* Metric.update(newestBackup, (backup ?? 0) / 1_000)
      })
