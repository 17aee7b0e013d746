import { Config, ConfigProvider, Context, Effect, Layer, Option } from "effect"
import { readdir, readFile, rm, statfs } from "node:fs/promises"
import { freemem, tmpdir } from "node:os"
import path from "node:path"
import { EmbeddedPostgres } from "../../src/server/store/EmbeddedPostgres.ts"

const DIRECTORY = "countersign-tests-"

/** A file system in memory that every Linux has. */
const MEMORY = "/dev/shm"

/** Room that the databases and the log of a run may need there, and memory that must be free. */
const MEMORY_ROOM_BYTES = 3 * 2 ** 30
const FREE_MEMORY_BYTES = 6 * 2 ** 30

/**
 * The directory for the server's data: in memory if it has room. Each database is several hundred small files; creating and removing them
 * costs a disk's file system a quarter of a second of processor time.
 */
const parentDirectory = Effect.promise(async () => {
  try {
    const { bavail, bsize } = await statfs(MEMORY)
    const mounts = await readFile("/proc/mounts", "utf8")
    // Fields of a line: device, directory, type, options. PostgreSQL's programs may be copied beside the data.
    const options = mounts
      .split("\n")
      .find((line) => line.split(" ")[1] === MEMORY)
      ?.split(" ")[3]
    const canRun = options !== undefined && !options.split(",").includes("noexec")
    if (canRun && bavail * bsize >= MEMORY_ROOM_BYTES && freemem() >= FREE_MEMORY_BYTES) return MEMORY
  } catch {
    // Not Linux, or a container without it.
  }
  return tmpdir()
})

/** Removes directories of killed runs. A server that still runs in one ends when its files are gone. */
const removeOldRuns = Effect.promise(async () => {
  for (const parent of [tmpdir(), MEMORY]) {
    for (const name of await readdir(parent).catch(() => [])) {
      if (!name.startsWith(DIRECTORY)) continue
      try {
        process.kill(Number(name.slice(DIRECTORY.length)), 0)
      } catch {
        await rm(path.join(parent, name), { recursive: true, force: true })
      }
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
  const dataDir = path.join(yield* parentDirectory, `${DIRECTORY}${process.pid}`)
  yield* Effect.addFinalizer(() => Effect.promise(() => rm(dataDir, { recursive: true, force: true })))
  // The data is temporary, so commits need not wait for the disk.
  const services = yield* Layer.build(EmbeddedPostgres.layer({ dataDir, sync: false }))
  return { url: Context.get(services, EmbeddedPostgres).url, where: `embedded, ${dataDir}` }
})
