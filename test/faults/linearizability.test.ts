import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import path from "node:path"
import { bundleService } from "../../scripts/linearizability/bundleService.ts"
import { runLinearizability } from "../../scripts/linearizability/run.ts"
import { violationsOf } from "../../scripts/linearizability/violations.ts"
import { dataDirectory } from "../support/embeddedPostgres.ts"

describe("Linearizability", () => {
  it.live(
    "concurrent decisions, steps, closes, promotions and creations behave as if they ran one at a time while replicas are killed and frozen",
    () =>
      Effect.gen(function* () {
        const bundle = path.join(yield* dataDirectory, "bundle")
        const entry = yield* Effect.promise(() => bundleService(bundle))
        const report = yield* runLinearizability({
          entry,
          dataDir: yield* dataDirectory,
          seconds: 8,
          seed: 3
        })
        const explanations = report.objects.flatMap(({ explanation }) => explanation ?? [])
        assert.deepStrictEqual([...violationsOf(report), ...explanations], [])
        assert.isAbove(report.objects.length, 10)
        assert.isAbove(report.faults.kill + report.faults["short freeze"] + report.faults["long freeze"], 0)
        assert.isAbove(report.streams.events, 0)
      }),
    300_000
  )
})
