import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { variableNames } from "../../src/server/config/Settings/variables.ts"
import { cli } from "../support/cli.ts"

describe("countersign config", () => {
  it.effect("lists every variable and its state, without secrets", () =>
    Effect.gen(function* () {
      const { ok, out } = yield* cli(["config"], {
        PORT: "81",
        COUNTERSIGN_METRICS_TOKEN: "hunter2-hunter2-hunter2"
      })
      assert.isTrue(ok)
      for (const name of variableNames) assert.include(out, name)
      assert.match(out, /^PORT\n.*\n {4}default: 8080\n {4}set to 81$/m)
      assert.include(out, "set (hidden)")
      assert.match(out, /^HOST\n.*\n {4}default: 127.0.0.1\n {4}not set$/m)
      assert.notInclude(out, "hunter2")
    })
  )

  it.effect("prints faults in place, fails with one line, and warns of misspelt variables", () =>
    Effect.gen(function* () {
      const { err, ok, out } = yield* cli(["config"], { PORT: "abc", COUNTERSIGN_DATADIR: "/x" })
      assert.isFalse(ok)
      assert.include(out, `INVALID: must be a whole number from 0 to 65535, not "abc"`)
      assert.include(err, "did you mean COUNTERSIGN_DATA_DIR?")
      assert.include(err, `PORT must be a whole number from 0 to 65535, not "abc"`)
    })
  )

  it.effect("shows with --set only what differs from the defaults or is invalid", () =>
    Effect.gen(function* () {
      const { out } = yield* cli(["config", "--set"], {
        PORT: "81",
        HOST: "127.0.0.1",
        COUNTERSIGN_METRICS_TOKEN: "hunter2-hunter2-hunter2",
        COUNTERSIGN_STOP_SECONDS: "soon"
      })
      const shown = out.split("\n").filter((line) => /^[A-Z]/.test(line))
      assert.deepStrictEqual(shown, ["PORT", "COUNTERSIGN_METRICS_TOKEN", "COUNTERSIGN_STOP_SECONDS"])
      assert.notInclude(out, "hunter2")
      const none = yield* cli(["config", "--set"], {})
      assert.deepStrictEqual([none.out, none.err], ["", "Every variable has its default."])
    })
  )

  it.effect("prints JSON with --json", () =>
    Effect.gen(function* () {
      const { out } = yield* cli(["config", "--json"], { PORT: "81" })
      const rows: unknown = JSON.parse(out)
      assert.isTrue(Array.isArray(rows) && rows.length === variableNames.length)
    })
  )

  it.effect("fails if the service would not start", () =>
    Effect.gen(function* () {
      const { err, ok } = yield* cli(["config"], { DATABASE_URL: "postgres://u:hunter2@db/x" })
      assert.isFalse(ok)
      assert.match(err, /^COUNTERSIGN_MASTER_KEY must be set with DATABASE_URL/)
    })
  )
})
