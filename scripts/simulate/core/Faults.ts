import type { Host } from "./Host.ts"
import type { Notifications } from "./Notifications.ts"
import type { StoreNetwork } from "./StoreClient.ts"

/** A graceful shutdown that takes longer is ended by SIGKILL, in milliseconds. */
const STOP_MILLIS = 20_000

/** After this much silence the service closes a connection, and then has to open another, in milliseconds. */
const SILENCE_MILLIS = 15_000

/** Faults that end connections. */
const CONNECTION_LOSSES: ReadonlySet<string> = new Set<Fault["_tag"]>([
  "CutConnections",
  "SilenceConnections",
  "Partition"
])

/** The pause between the restarts of a roll-out, and the time without the process in each, in milliseconds. */
const ROLL_OUT_MILLIS = 3_000
const ROLL_OUT_DOWN_MILLIS = 300

/** How long the restart of one replica in a roll-out may disturb the others, in milliseconds. */
const ROLL_OUT_DISTURBS_MILLIS = 8_000

/** A fault at a moment of a run. Replicas are numbered from 0. */
export type Fault = { readonly at: number } & (
  | { readonly _tag: "Kill"; readonly replica: number; readonly downMillis: number }
  | { readonly _tag: "Freeze"; readonly replica: number; readonly millis: number }
  /** Like `Freeze`, but the monotonic clock stands still meanwhile, as in a suspended virtual machine. */
  | { readonly _tag: "Suspend"; readonly replica: number; readonly millis: number }
  /** A graceful shutdown, and a start after it has ended. */
  | { readonly _tag: "Restart"; readonly replica: number; readonly downMillis: number }
  /** A roll-out: every replica is restarted, one after the other. */
  | { readonly _tag: "RollOut" }
  /** The wall clock of a replica's machine is set. */
  | { readonly _tag: "StepClock"; readonly replica: number; readonly millis: number }
  | { readonly _tag: "StepStoreClock"; readonly millis: number }
  /** Connections are closed by something between a replica, or all of them, and the store. */
  | { readonly _tag: "CutConnections"; readonly replica: number | null }
  /** Connections of a replica swallow all messages; new connections work. */
  | { readonly _tag: "SilenceConnections"; readonly replica: number }
  /** A share of the connections of a replica take long to carry a message. */
  | {
      readonly _tag: "DelayMessages"
      readonly replica: number
      readonly share: number
      readonly delayMillis: number
      readonly millis: number
    }
  /** The store does what a replica asks, but connections are closed before some of its answers arrive. */
  | {
      readonly _tag: "LoseAnswers"
      readonly replica: number
      readonly chance: number
      readonly millis: number
    }
  /** A replica cannot reach the store. */
  | { readonly _tag: "Partition"; readonly replica: number; readonly millis: number }
  | { readonly _tag: "SlowStore"; readonly statementMillis: number; readonly millis: number }
  | { readonly _tag: "FreezeStore"; readonly millis: number }
  | { readonly _tag: "RestartStore"; readonly downMillis: number }
  | { readonly _tag: "LoseNotifications"; readonly millis: number }
)

/** A process that faults happen to. */
export interface Machine {
  readonly host: Host
  /** Whether it takes requests. */
  readonly isReady: boolean
  /** When its graceful shutdown began. */
  readonly stoppingSince: number | undefined
  /** Begins a graceful shutdown, after which the process ends. */
  readonly stop: () => void
}

/** A fault that happened, for as long as it may explain something. */
interface PastFault<Other extends string> {
  readonly tag: Fault["_tag"] | Other
  /** The replica that it affects; undefined for all. */
  readonly replica: number | undefined
  readonly from: number
  readonly to: number
}

/** What the faults of a run happen to. */
export interface FaultTargets {
  readonly network: StoreNetwork
  readonly notifications: Notifications
  /** The running process of each replica, or the last one. */
  readonly replicas: ReadonlyArray<Machine | undefined>
  readonly start: (replica: number) => void
  /** Called before a suspended replica continues. */
  readonly onResume: (replica: number) => void
  /** Called when the store's clock was set. */
  readonly onStoreClockStep: (millis: number) => void
  /** Crashes the store by `crash`; may look at it before and after. */
  readonly crashing: (crash: () => void) => void
}

/** Lets faults happen, and remembers them. `Other` are the kinds of faults that a simulation adds itself, and notes. */
export class Faults<Other extends string = never> {
  /** When the last fault that is known ends, in milliseconds of the simulation. */
  calmFrom = 0
  readonly #targets: FaultTargets
  readonly #past: Array<PastFault<Other>> = []

  constructor(targets: FaultTargets) {
    this.#targets = targets
  }

  /** Whether one of these kinds of faults happened to a replica within the last milliseconds, or lasts. */
  isExplained(
    replica: number | undefined,
    tags: ReadonlyArray<Fault["_tag"] | Other>,
    withinMillis: number
  ): boolean {
    const { now } = this.#targets.network.store.simulation
    return this.#past.some(
      (fault) =>
        tags.includes(fault.tag) &&
        (fault.replica === undefined || replica === undefined || fault.replica === replica) &&
        fault.from <= now &&
        fault.to + withinMillis >= now
    )
  }

  /** When the last fault ends, with the time that its consequences last; 0 if there was none. */
  lastEnd(aftermathMillis: (tag: Fault["_tag"] | Other) => number): number {
    return Math.max(0, ...this.#past.map(({ tag, to }) => to + aftermathMillis(tag)))
  }

  /** Remembers a fault that lasts from now for a while. */
  note(tag: Fault["_tag"] | Other, replica: number | undefined, lastsMillis: number): void {
    const from = this.#targets.network.store.simulation.now
    this.#past.push({ tag, replica, from, to: from + lastsMillis })
    this.calmFrom = Math.max(this.calmFrom, from + lastsMillis)
  }

  /** Lets a fault happen now. */
  inject(fault: Fault): void {
    const { crashing, network, notifications, replicas } = this.#targets
    const { store } = network
    const { simulation } = store
    switch (fault._tag) {
      case "Kill":
        return this.#kill(fault)
      case "Freeze":
      case "Suspend": {
        const replica = replicas[fault.replica]
        if (replica === undefined || !replica.host.isAlive || replica.host.isFrozen) return
        this.note(fault._tag, fault.replica, fault.millis)
        const began = simulation.now
        replica.host.freeze()
        if (fault._tag === "Suspend") replica.host.stopMonotonic()
        return this.#after(fault.millis, () => {
          simulation.log(() => `${replica.host.name}: continues`)
          // It has not noticed the loss of a connection that it waits on.
          const wasCut = this.#past.some(
            ({ replica: of, tag, to }) =>
              CONNECTION_LOSSES.has(tag) && to >= began && (of === undefined || of === fault.replica)
          )
          if (wasCut) this.note("SilenceConnections", fault.replica, SILENCE_MILLIS)
          if (fault._tag === "Suspend") this.#targets.onResume(fault.replica)
          replica.host.thaw()
        })
      }
      case "Restart":
        return this.#restart(fault.replica, fault.downMillis)
      case "RollOut": {
        for (const number of replicas.keys()) {
          this.note(fault._tag, number, number * ROLL_OUT_MILLIS + ROLL_OUT_DISTURBS_MILLIS)
          this.#after(number * ROLL_OUT_MILLIS, () => this.#restart(number, ROLL_OUT_DOWN_MILLIS))
        }
        return
      }
      case "StepClock": {
        const replica = replicas[fault.replica]
        if (replica !== undefined) replica.host.wallSkewMillis += fault.millis
        return this.note(fault._tag, fault.replica, 0)
      }
      case "StepStoreClock":
        store.skewMillis += fault.millis
        this.#targets.onStoreClockStep(fault.millis)
        // After a step back, the lease of a dead process lasts longer.
        return this.note(fault._tag, undefined, Math.max(0, -fault.millis))
      case "CutConnections": {
        const host = fault.replica === null ? undefined : replicas[fault.replica]?.host
        this.note(fault._tag, fault.replica ?? undefined, 0)
        for (const connection of network.connections(host)) connection.reset()
        return
      }
      case "SilenceConnections": {
        const host = replicas[fault.replica]?.host
        if (host === undefined) return
        this.note(fault._tag, fault.replica, SILENCE_MILLIS)
        for (const connection of network.connections(host)) connection.silence()
        return
      }
      case "DelayMessages": {
        const host = replicas[fault.replica]?.host
        if (host === undefined) return
        this.note(fault._tag, fault.replica, fault.millis + 2 * fault.delayMillis)
        network.delays.set(host, { millis: fault.delayMillis, share: fault.share })
        return this.#after(fault.millis, () => void network.delays.delete(host))
      }
      case "LoseAnswers": {
        const host = replicas[fault.replica]?.host
        if (host === undefined) return
        this.note(fault._tag, fault.replica, fault.millis)
        network.answerLoss.set(host, fault.chance)
        return this.#after(fault.millis, () => void network.answerLoss.delete(host))
      }
      case "Partition": {
        const host = replicas[fault.replica]?.host
        if (host === undefined) return
        this.note(fault._tag, fault.replica, fault.millis + SILENCE_MILLIS)
        for (const connection of network.connections(host)) connection.silence()
        network.unreachableFrom.add(host)
        return this.#after(fault.millis, () => void network.unreachableFrom.delete(host))
      }
      case "SlowStore":
        this.note(fault._tag, undefined, fault.millis)
        store.slowMillis = fault.statementMillis
        return this.#after(fault.millis, () => {
          store.slowMillis = 0
        })
      case "FreezeStore":
        this.note(fault._tag, undefined, fault.millis)
        store.freeze()
        return this.#after(fault.millis, () => store.thaw())
      case "RestartStore":
        if (!store.isRunning) return
        this.note(fault._tag, undefined, fault.downMillis)
        crashing(() => store.crash())
        return this.#after(fault.downMillis, () => store.start())
      case "LoseNotifications":
        this.note(fault._tag, undefined, fault.millis)
        notifications.lostUntil = Math.max(notifications.lostUntil, simulation.now + fault.millis)
    }
  }

  #after(delayMillis: number, run: () => void): void {
    this.#targets.network.store.simulation.schedule(delayMillis, run)
  }

  #kill(fault: Extract<Fault, { readonly _tag: "Kill" }>): void {
    const replica = this.#targets.replicas[fault.replica]
    if (replica === undefined || !replica.host.isAlive) return
    this.note(fault._tag, fault.replica, fault.downMillis)
    const isStopping = replica.stoppingSince !== undefined
    replica.host.kill()
    // A stopped replica is started again by whoever stopped it.
    if (!isStopping) this.#after(fault.downMillis, () => this.#targets.start(fault.replica))
  }

  #restart(number: number, downMillis: number): void {
    const replica = this.#targets.replicas[number]
    // A process that has not yet started is left alone: the process manager waits.
    if (replica === undefined || !replica.host.isAlive || !replica.isReady) return
    if (replica.stoppingSince !== undefined) return
    const { simulation } = this.#targets.network.store
    this.note("Restart", number, downMillis + STOP_MILLIS)
    replica.host.onDeath(() => {
      simulation.log(() => `${replica.host.name}: has stopped`)
      this.#after(downMillis, () => this.#targets.start(number))
    })
    replica.stop()
    this.#after(STOP_MILLIS, () => {
      if (!replica.host.isAlive) return
      this.note("Kill", number, 0)
      replica.host.kill()
    })
  }
}
