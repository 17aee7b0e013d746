import { Effect, type Scope } from "effect"
import { lstat, mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { startGuard } from "./directoryGuard.ts"
import { ownerState, writeOwner } from "./ownerRecord.ts"

/** A directory without a readable owner, which a process left that was killed while it created it, is removed after this time. */
const ABANDONED_MILLIS = 24 * 60 * 60 * 1000

/**
 * A directory for the data of a temporary PostgreSQL. It is removed when the scope closes; or with its server when this process ends in any
 * other way, such as by Ctrl-C or a kill (`startGuard`). If its guard is killed too, the next call with this prefix removes it.
 */
export const temporaryDirectory = (prefix: string): Effect.Effect<string, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        await removeAbandoned(prefix)
        const directory = await mkdtemp(path.join(tmpdir(), prefix))
        const guard = startGuard(directory)
        await writeOwner(directory)
        return { directory, guard }
      }),
      ({ directory, guard }) =>
        Effect.promise(async () => {
          await rm(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
          await guard.release()
        })
    ),
    ({ directory }) => directory
  )

/** Removes directories of ended processes with their servers. Directories of other accounts and hosts stay. */
const removeAbandoned = async (prefix: string): Promise<void> => {
  const names = await readdir(tmpdir()).catch(() => [])
  const abandoned = await Promise.all(
    names
      .filter((name) => name.startsWith(prefix))
      .map(async (name) => {
        const directory = path.join(tmpdir(), name)
        return (await isAbandoned(directory)) ? [directory] : []
      })
  )
  await Promise.all(
    abandoned.flat().map(async (directory) => {
      await startGuard(directory).release()
      // Where no guard can run.
      await rm(directory, { recursive: true, force: true }).catch(() => {})
    })
  )
}

const isAbandoned = async (directory: string): Promise<boolean> => {
  try {
    const facts = await lstat(directory)
    if (!facts.isDirectory() || (process.getuid !== undefined && facts.uid !== process.getuid())) return false
    const state = await ownerState(directory)
    return state === "ended" || (state === "unknown" && Date.now() - facts.mtimeMs > ABANDONED_MILLIS)
  } catch {
    // Another process has just removed it.
    return false
  }
}
