import type { Simulation } from "../core/Simulation.ts"
import type { Action } from "./Plan.ts"

/** A fault, for as long as it may explain something. */
interface Fault {
  readonly tag: Action["_tag"]
  /** The replica that it affects; undefined for all. */
  readonly replica: number | undefined
  readonly from: number
  readonly to: number
}

/** For how long after a fault its consequences may last: a lease, and a renewal that was under way. */
export const AFTERMATH_MILLIS = 12_500

/** Faults that delay or lose notifications, and nothing else. */
const OF_NOTIFICATIONS: ReadonlyArray<Action["_tag"]> = ["LoseNotifications"]

/** Faults that may end a lease. A closed connection is opened again within milliseconds, and a late NOTIFY ends none. */
export const LEASE_FAULTS: ReadonlyArray<Action["_tag"]> = [
  "Kill",
  "Freeze",
  "Suspend",
  "SilenceConnections",
  "DelayMessages",
  "LoseAnswers",
  "Partition",
  "SlowStore",
  "FreezeStore",
  "RestartStore",
  "StepStoreClock"
]

/** The faults of a run, and what they may explain. */
export class Faults {
  readonly #simulation: Simulation
  readonly #list: Array<Fault> = []

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  /** Records a fault that lasts from now for a while. */
  add(tag: Action["_tag"], replica: number | undefined, lastsMillis: number): void {
    const from = this.#simulation.now
    this.#list.push({ tag, replica, from, to: from + lastsMillis })
  }

  /** Whether a fault of one of these kinds may explain what happens now to a replica. */
  explain(
    replica: number | undefined,
    tags: ReadonlyArray<Action["_tag"]>,
    since = AFTERMATH_MILLIS
  ): boolean {
    const { now } = this.#simulation
    return this.#list.some(
      (fault) =>
        tags.includes(fault.tag) &&
        (fault.replica === undefined || fault.replica === replica) &&
        fault.from <= now &&
        fault.to + since >= now
    )
  }

  /** Since when no fault has disturbed any replica, except by lost notifications; 0 if none ever has. */
  quietSince(): number {
    const ends = this.#list
      .filter(({ tag }) => !OF_NOTIFICATIONS.includes(tag))
      .map(({ tag, to }) => to + (tag === "StepStoreClock" ? LATEST_RETRY_MILLIS : AFTERMATH_MILLIS))
    return Math.max(0, ...ends)
  }
}

/** After a step of the store's clock, due times in memory and in the store differ for as long as the longest pause of a retry. */
const LATEST_RETRY_MILLIS = 45_000
