/** A lock file: mutual exclusion between processes. Runs on Node 18 or later without dependencies. */
import { linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"

/** Longest wait for the lock, in milliseconds. */
const MAX_WAIT_MILLIS = 10 * 60_000

/** Age in milliseconds after which an empty lock file is stale: its process ended between creating and writing it. */
const EMPTY_STALE_MILLIS = 5_000

/** Poll interval while waiting, in milliseconds. */
const POLL_MILLIS = 100

/** The lock was not released in time, or is stale and cannot be removed. */
export class LockHeld extends Error {}

const pause = (millis) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, millis)

const isAlive = (pid) => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === "EPERM"
  }
}

/** The process id in the lock file, and whether the lock is stale. `undefined` if there is no lock. */
const readLock = (lock) => {
  try {
    const owner = Number(readFileSync(lock, "utf8"))
    // Our own process id is from an earlier process: in a container, every start may get the same id.
    if (owner > 0) return { owner, stale: owner === process.pid || !isAlive(owner) }
    return { owner, stale: Date.now() - statSync(lock).mtimeMs > EMPTY_STALE_MILLIS }
  } catch (error) {
    if (error.code === "ENOENT") return undefined
    throw error
  }
}

/** Removes a stale lock. If another process has replaced it since it was read, that lock is put back. */
const removeStaleLock = (lock, owner) => {
  const away = `${lock}.${process.pid}`
  try {
    renameSync(lock, away)
    if (Number(readFileSync(away, "utf8")) !== owner) linkSync(away, lock)
  } catch (error) {
    if (error.code === "EPERM" || error.code === "EACCES")
      throw new LockHeld(`${lock} belongs to another user; remove it`)
    if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error
  } finally {
    rmSync(away, { force: true })
  }
}

/**
 * Runs `work` while holding the lock file. A lock whose process has ended is removed. Calls `onWait` once if it has to wait. Throws
 * `LockHeld` after ten minutes.
 */
export const withFileLock = (lock, work, onWait) => {
  for (let waited = 0; ;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: "wx" })
      break
    } catch (error) {
      if (error.code !== "EEXIST") throw error
    }
    const held = readLock(lock)
    if (held === undefined) continue
    if (held.stale) {
      removeStaleLock(lock, held.owner)
      continue
    }
    if (waited === 0) onWait()
    if (waited >= MAX_WAIT_MILLIS)
      throw new LockHeld(`another set-up holds ${lock}; remove the file if no set-up is running`)
    pause(POLL_MILLIS)
    waited += POLL_MILLIS
  }
  try {
    return work()
  } finally {
    rmSync(lock, { force: true })
  }
}
