import { readdirSync, readFileSync, readlinkSync } from "node:fs"

/** Ids of the processes whose working directory is `directory`, as that of all processes of a PostgreSQL server. Linux only. */
export const processesIn = (directory: string): ReadonlyArray<number> =>
  readdirSync("/proc").flatMap((name) => {
    const pid = Number(name)
    if (!Number.isInteger(pid)) return []
    try {
      return readlinkSync(`/proc/${pid}/cwd`) === directory ? [pid] : []
    } catch {
      // It has ended, or belongs to another account.
      return []
    }
  })

/** The command line of a process, which a PostgreSQL process sets to its role; empty if it has ended. */
export const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim()
  } catch {
    return ""
  }
}

/** Sends a signal to a process that may have ended. */
export const sendSignal = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended.
  }
}
