import { Effect } from "effect"
import { open } from "node:fs/promises"
import { type EmbeddedPostgresFailed, tryFileSystem } from "./EmbeddedPostgres/EmbeddedPostgresFailed.ts"

/** Syncs the entries of a directory to disk. Windows has no such call. */
export const syncDirectory = (directory: string): Effect.Effect<void, EmbeddedPostgresFailed> =>
  process.platform === "win32"
    ? Effect.void
    : tryFileSystem(`writing ${directory}`, async () => {
        const handle = await open(directory, "r")
        try {
          await handle.sync()
        } finally {
          await handle.close()
        }
      })
