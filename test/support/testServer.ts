import { Config, ConfigProvider, Context, Effect, Layer, Option } from "effect"
import { readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { EmbeddedPostgres } from "../../src/server/store/EmbeddedPostgres.ts"

const DIRECTORY = "countersign-tests-"

/** Removes directories of killed runs. A server that still runs in one ends when its files are gone. */
const removeOldRuns = Effect.promise(async () => {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(DIRECTORY)) continue
    try {
      process.kill(Number(name.slice(DIRECTORY.length)), 0)
    } catch {
      await rm(path.join(tmpdir(), name), { recursive: true, force: true })
    }
  }
})

/** The test server: the one of COUNTERSIGN_TEST_DATABASE_URL, else an embedded one in a temporary directory. */
export const testServer = Effect.gen(function* () {
  const given = yield* Config.option(Config.Redacted("COUNTERSIGN_TEST_DATABASE_URL")).parse(
    ConfigProvider.fromEnv()
  )
  if (Option.isSome(given)) return { url: given.value, where: "COUNTERSIGN_TEST_DATABASE_URL" }
  yield* removeOldRuns
  const dataDir = path.join(tmpdir(), `${DIRECTORY}${process.pid}`)
  yield* Effect.addFinalizer(() => Effect.promise(() => rm(dataDir, { recursive: true, force: true })))
  // The data is temporary, so commits need not wait for the disk.
  const services = yield* Layer.build(EmbeddedPostgres.layer({ dataDir, sync: false }))
  return { url: Context.get(services, EmbeddedPostgres).url, where: `embedded, ${dataDir}` }
})
