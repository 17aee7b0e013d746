import type { Replica } from "./replicas.ts"
import { pick, pickWeighted, sleep } from "./workload/World.ts"

/** What happens to the service while clients use it. */
export type Fault = "kill" | "short freeze" | "long freeze" | "break connections" | "restart the database"

/** How often each fault is chosen. */
const WEIGHTS: ReadonlyArray<readonly [weight: number, fault: Fault]> = [
  [10, "kill"],
  [5, "short freeze"],
  [2, "long freeze"],
  [1, "break connections"],
  [1, "restart the database"]
]

/** Between two faults, at most. */
const PAUSE_MILLIS = 2_000

/** A short freeze is shorter than the time-out of a client; a long one is longer than a lease of ten seconds. */
const SHORT_MILLIS = 2_000
const LONG_MILLIS = 11_000

/** Access to the database that faults need. */
export interface FaultyDatabase {
  readonly restart: () => void
  readonly breakConnections: () => Promise<void>
}

/** How often each fault has happened before a run. */
export const noFaults: Readonly<Record<Fault, number>> = {
  kill: 0,
  "short freeze": 0,
  "long freeze": 0,
  "break connections": 0,
  "restart the database": 0
}

/**
 * Causes faults until `isOver`, then waits until all replicas run again. No fault happens while fewer than two replicas work; returns
 * how often each fault happened.
 */
export const causeFaults = async (
  replicas: ReadonlyArray<Replica>,
  database: FaultyDatabase,
  random: () => number,
  isOver: () => boolean
): Promise<Readonly<Record<Fault, number>>> => {
  const done: Record<Fault, number> = { ...noFaults }
  const recoveries = new Set<Promise<void>>()
  const recover = (recovery: Promise<void>) => {
    recoveries.add(recovery)
    void recovery.finally(() => recoveries.delete(recovery))
  }
  const working = () => replicas.filter((replica) => replica.isReady() && !replica.isFrozen())

  const freeze = (replica: Replica, millis: number): Promise<void> => {
    replica.freeze()
    const until = performance.now() + millis
    return (async () => {
      while (performance.now() < until && !isOver()) await sleep(50)
      replica.resume()
    })()
  }

  const inflict: Readonly<Record<Fault, () => Promise<boolean>>> = {
    kill: async () => {
      const replica = pick(random, working())
      await replica.kill()
      recover(replica.start())
      return true
    },
    "short freeze": async () => {
      recover(freeze(pick(random, working()), random() * SHORT_MILLIS))
      return true
    },
    "long freeze": async () => {
      if (replicas.some((replica) => replica.isFrozen())) return false
      recover(freeze(pick(random, working()), LONG_MILLIS))
      return true
    },
    "break connections": async () => {
      await database.breakConnections()
      return true
    },
    "restart the database": async () => {
      database.restart()
      return true
    }
  }

  while (!isOver()) {
    await sleep(random() * PAUSE_MILLIS)
    const fault = pickWeighted(random, WEIGHTS)
    if (isOver() || working().length < 2) continue
    if (await inflict[fault]()) done[fault]++
  }
  await Promise.all(recoveries)
  return done
}
