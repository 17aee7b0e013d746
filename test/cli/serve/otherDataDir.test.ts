import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { warnOfOtherDataDir } from "../../../src/cli/serve/otherDataDir.ts"
import type { StoreSettings } from "../../../src/server/config/Settings.ts"
import { embeddedStoreExists } from "../../../src/server/store/EmbeddedPostgres.ts"

const embedded = (dataDir: string): StoreSettings => ({
  kind: "embedded",
  create: true,
  dataDir,
  postgresBin: undefined,
  user: undefined,
  masterKeys: undefined
})

const ROOTS = "/var/lib/countersign"

describe("the default data directory", () => {
  it.live(
    "of root, when the working directory has an ordinary account's database, is explained at the start",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(path.join(tmpdir(), "data-dir-"))),
          (made) => Effect.sync(() => rmSync(made, { recursive: true }))
        )
        const warn = (dataDir: string, uid: number) => warnOfOtherDataDir(embedded(dataDir), { cwd, uid })
        assert.isUndefined(yield* warn(ROOTS, 0))

        mkdirSync(path.join(cwd, ".countersign/postgres"), { recursive: true })
        writeFileSync(path.join(cwd, ".countersign/postgres/PG_VERSION"), "18\n")
        // This machine may have a database of root's.
        const rootHasOne = yield* embeddedStoreExists(ROOTS)
        const warning = yield* warn(ROOTS, 0)
        if (rootHasOne) assert.isUndefined(warning)
        else {
          assert.include(warning ?? "", "as root the data directory is /var/lib/countersign")
          assert.include(warning ?? "", `COUNTERSIGN_DATA_DIR=${path.join(cwd, ".countersign")}`)
        }
        // A chosen directory, and one that has a database already, need no explanation.
        assert.isUndefined(yield* warn(path.join(cwd, "chosen"), 0))
        assert.isUndefined(yield* warn(path.join(cwd, ".countersign"), 1_000))
      }).pipe(Effect.scoped)
  )
})
