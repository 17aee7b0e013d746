/** A memory limit for some processes: the system kills one of them as soon as they need more together (cgroups of Linux). */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs"
import path from "node:path"

export interface MemoryLimit {
  /** Limits what these processes and their children need from now on, in bytes. */
  readonly apply: (pids: ReadonlyArray<number>, bytes: number) => void
  /** How many processes the system has killed because of the limit. */
  readonly kills: () => number
  /** Takes the limit away. */
  readonly lift: () => void
}

/** The files of a cgroup's limit, by the version of the interface. */
interface Interface {
  readonly parent: string
  readonly limits: ReadonlyArray<string>
  readonly unlimited: string
  readonly events: string
}

const INTERFACES: ReadonlyArray<Interface> = [
  {
    parent: "/sys/fs/cgroup",
    limits: ["memory.max", "memory.swap.max"],
    unlimited: "max",
    events: "memory.events"
  },
  {
    parent: "/sys/fs/cgroup/memory",
    limits: ["memory.limit_in_bytes"],
    unlimited: "-1",
    events: "memory.oom_control"
  }
]

/** Makes a limit. Undefined if this account may not make one here, as in most containers. */
export const makeMemoryLimit = (name: string): MemoryLimit | undefined => {
  for (const { events, limits, parent, unlimited } of INTERFACES) {
    const group = path.join(parent, name)
    const file = (entry: string) => path.join(group, entry)
    const removeGroup = () => {
      try {
        rmdirSync(group)
      } catch {
        // A process that was killed is still being removed from it. The group is empty, and the next boot forgets it.
      }
    }
    const setLimits = (value: string) => {
      for (const limit of limits) if (existsSync(file(limit))) writeFileSync(file(limit), value)
    }
    try {
      mkdirSync(group)
    } catch {
      continue
    }
    if (!limits.some((limit) => existsSync(file(limit)))) {
      removeGroup()
      continue
    }
    return {
      apply: (pids, bytes) => {
        for (const pid of pids) {
          try {
            writeFileSync(file("cgroup.procs"), String(pid))
          } catch {
            // It has ended.
          }
        }
        setLimits(String(bytes))
      },
      kills: () => Number(/^oom_kill (\d+)$/m.exec(readFileSync(file(events), "utf8"))?.[1] ?? 0),
      lift: () => {
        setLimits(unlimited)
        moveAll(group, parent)
        removeGroup()
      }
    }
  }
  return undefined
}

const moveAll = (group: string, target: string): void => {
  for (const pid of readFileSync(path.join(group, "cgroup.procs"), "utf8").split("\n").filter(Boolean)) {
    try {
      writeFileSync(path.join(target, "cgroup.procs"), pid)
    } catch {
      // It has ended.
    }
  }
}
