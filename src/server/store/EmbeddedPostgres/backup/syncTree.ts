import { open, readdir } from "node:fs/promises"
import path from "node:path"

/** Syncs the entries of a directory and of all below it to disk. Windows has no such call. */
export const syncTree = async (directory: string): Promise<void> => {
  if (process.platform === "win32") return
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) await syncTree(path.join(directory, entry.name))
  }
  const handle = await open(directory, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
