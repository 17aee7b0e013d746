/** One at a time over processes, by a file. Runs under any Node from 18 on and without a dependency. */
import { linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"

/** Longest wait for another's work, in milliseconds. */
const WAIT_LIMIT = 10 * 60_000

/** After which a lock that names nobody was left by a process that ended between making and writing it, in milliseconds. */
const EMPTY_LIMIT = 5_000

const PAUSE = 100

/** The lock was held for as long as anybody waits, or cannot be taken over. */
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

/** Whose lock it is, and whether nobody works under it any more; `undefined` where there is none. */
const look = (lock) => {
  try {
    const owner = Number(readFileSync(lock, "utf8"))
    // One's own id is that of an earlier process: in a container every start may have the same.
    if (owner > 0) return { owner, stale: owner === process.pid || !isAlive(owner) }
    return { owner, stale: Date.now() - statSync(lock).mtimeMs > EMPTY_LIMIT }
  } catch (error) {
    if (error.code === "ENOENT") return undefined
    throw error
  }
}

/** Moves a stale lock away. What turns out to be another's, made since it was looked at, is put back. */
const takeAway = (lock, owner) => {
  const away = `${lock}.${process.pid}`
  try {
    renameSync(lock, away)
    if (Number(readFileSync(away, "utf8")) !== owner) linkSync(away, lock)
  } catch (error) {
    if (error.code === "EPERM" || error.code === "EACCES")
      throw new LockHeld(`another account left ${lock}; remove it`)
    if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error
  } finally {
    rmSync(away, { force: true })
  }
}

/**
 * Does the work while this process alone has the lock. One whose process is gone is taken over. Calls `onWait` once, when it has to
 * wait; throws `LockHeld` after ten minutes.
 */
export const alone = (lock, work, onWait) => {
  for (let waited = 0; ;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: "wx" })
      break
    } catch (error) {
      if (error.code !== "EEXIST") throw error
    }
    const held = look(lock)
    if (held === undefined) continue
    if (held.stale) {
      takeAway(lock, held.owner)
      continue
    }
    if (waited === 0) onWait()
    if (waited >= WAIT_LIMIT) throw new LockHeld(`another set-up holds ${lock}; remove it if none is at work`)
    pause(PAUSE)
    waited += PAUSE
  }
  try {
    return work()
  } finally {
    rmSync(lock, { force: true })
  }
}
