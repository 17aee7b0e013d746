import { Simulation } from "../core/Simulation.ts"
import { Store } from "../core/Store.ts"
import { StoreNetwork } from "../core/StoreClient.ts"
import { Notifications } from "../core/Notifications.ts"
import { EventId, OrgId } from "../../../src/domain/Ids.ts"
import { type ChannelPolicy, defaultChannelPolicy } from "../../../src/server/delivery/Channel.ts"
import { Checks } from "./Checks.ts"
import { DeliveryModel } from "./DeliveryModel.ts"
import { ACTION_MILLIS, type Action, type Plan } from "./Plan.ts"
import { Receivers } from "./Receivers.ts"
import { type Destination, Replica } from "./Replica.ts"

/** How long everything may take once nothing disturbs any more, in milliseconds. */
const RECOVERY_MILLIS = 150_000

/** How often the checks look at all replicas, in milliseconds. */
const CHECK_EVERY_MILLIS = 250

/** A graceful shutdown that takes longer is ended by SIGKILL, in milliseconds. */
const STOP_MILLIS = 20_000

/** The most events of one run. A run that needs more does not come to an end. */
const MAX_STEPS = 3_000_000

/** The result of a run. */
export interface Outcome {
  /** The broken invariant; undefined if all hold. */
  readonly broken: string | undefined
  readonly steps: number
  /** In milliseconds of virtual time. */
  readonly lasted: number
  /** Identifies the course of the run: the same for each run of a plan. */
  readonly fingerprint: string
  readonly counts: Readonly<Record<string, number>>
}

/** One run of a plan: replicas, store, network and receivers, in one process. */
export class World {
  readonly plan: Plan
  readonly simulation: Simulation
  readonly store: Store
  readonly network: StoreNetwork
  readonly notifications: Notifications
  readonly model: DeliveryModel
  readonly receivers: Receivers
  readonly policy: ChannelPolicy
  readonly checks: Checks
  readonly destinations: ReadonlyArray<Destination>
  /** Destinations that were disabled or removed. */
  readonly disabled = new Set<string>()
  /** Destinations whose cooldown a user ended. */
  readonly cooldownsEnded = new Set<string>()
  /** Destinations whose results the store rejects. */
  readonly rejected = new Set<string>()
  /** The running process of each replica, or the last one. */
  readonly replicas: Array<Replica> = []
  readonly #all: Array<Replica> = []
  readonly #steps: Array<{ readonly at: number; readonly millis: number }> = []
  #ids = 0
  #isFinished = false
  /** When the last fault that is known ends. */
  #calmFrom = ACTION_MILLIS

  constructor(plan: Plan, trace?: (line: string) => void) {
    this.plan = plan
    this.simulation = new Simulation(`run ${plan.seed}`, trace)
    this.store = new Store(this.simulation)
    this.network = new StoreNetwork(this.store)
    this.notifications = new Notifications(this.network)
    this.model = new DeliveryModel(this.store)
    this.receivers = new Receivers(this.simulation)
    // As the default policy, in fewer and shorter steps.
    this.policy = {
      ...defaultChannelPolicy,
      retry: {
        delaysMillis: [0, 1_000, 3_000, 8_000, 12_000],
        jitter: 0.2,
        maxRetryAfterMillis: 20_000,
        maxElapsedMillis: plan.maxElapsedMillis
      },
      cooldown: { failureThreshold: 3, firstMillis: 3_000, longestMillis: 12_000 },
      queueLimit: plan.queueLimit,
      concurrency: plan.concurrency,
      ...(plan.rates === undefined ? {} : { receiverRates: plan.rates, networkRates: plan.rates })
    }
    this.destinations = plan.destinations.map(({ organization }, number) => ({
      number,
      org_id: OrgId.make(`org_${hex(organization)}`),
      destination_id: `nep_${hex(number)}`
    }))
    this.checks = new Checks(this)
  }

  /** Runs the plan to its end, or to the first broken invariant. */
  run(): Outcome {
    const { checks, plan, simulation } = this
    for (let number = 0; number < plan.replicas; number++) {
      simulation.schedule(simulation.random.next() * 200, () => this.#startReplica(number))
    }
    for (const action of plan.actions) simulation.schedule(action.at, () => this.#act(action))
    this.#checkRegularly()
    simulation.schedule(ACTION_MILLIS, () => this.#calm())
    const look = () => {
      const left = simulation.now < this.#calmFrom ? ["calm"] : checks.unfinished()
      if (left.length === 0) {
        this.#isFinished = true
        checks.checkRecords()
      } else if (simulation.now > this.#calmFrom + RECOVERY_MILLIS) {
        checks.fail(`After ${RECOVERY_MILLIS / 1000} s without a fault: ${left.slice(0, 4).join("; ")}`)
      } else simulation.schedule(500, look)
    }
    simulation.schedule(ACTION_MILLIS + 1, look)
    while (
      !this.#isFinished &&
      checks.broken === undefined &&
      simulation.steps < MAX_STEPS &&
      simulation.step()
    );
    if (simulation.steps >= MAX_STEPS) checks.fail(`More than ${MAX_STEPS} events`)
    return {
      broken: checks.broken,
      steps: simulation.steps,
      lasted: simulation.now,
      fingerprint: `${simulation.steps} ${simulation.now} ${simulation.random.next()} ${this.store.random.next()}`,
      counts: { ...checks.counts, ...this.store.counts, faults: plan.actions.length }
    }
  }

  nextId(prefix: string): string {
    return `${prefix}_${hex(++this.#ids)}`
  }

  nextEventId(): EventId {
    return EventId.make(`evt_${hex(++this.#ids)}`)
  }

  numberOf(destination_id: string): number {
    return this.destinations.find((one) => one.destination_id === destination_id)?.number ?? 0
  }

  /** The server that a destination belongs to. */
  receiverOf(destination_id: string): string {
    return `receiver ${this.numberOf(destination_id) % 3}`
  }

  replicaOf(owner: string): Replica | undefined {
    return this.#all.find((one) => one.owner === owner)
  }

  /** The sum of the forward steps of the store's clock within the last milliseconds. */
  forwardSteps(withinMillis: number): number {
    const { now } = this.simulation
    return this.#steps
      .filter(({ at, millis }) => millis > 0 && at >= now - withinMillis)
      .reduce((sum, { millis }) => sum + millis, 0)
  }

  #startReplica(number: number): void {
    const starts = this.#all.filter((one) => one.number === number).length
    const replica = new Replica(this, number, starts)
    this.simulation.log(() => `${replica.owner}: starts`)
    this.checks.waits.started()
    this.replicas[number] = replica
    this.#all.push(replica)
  }

  #checkRegularly(): void {
    this.checks.checkRegularly()
    this.simulation.schedule(CHECK_EVERY_MILLIS, () => this.#checkRegularly())
  }

  /** From now on receivers are well. */
  #calm(): void {
    this.simulation.log(() => "receivers are well, no further faults")
    for (const { number } of this.destinations) this.receivers.setMode(number, { _tag: "Healthy" })
  }

  /** A fault lasts: the run is not calm before its end. */
  #fault(action: Action, replica: number | undefined, lastsMillis: number): void {
    this.checks.faults.add(action._tag, replica, lastsMillis)
    this.#calmFrom = Math.max(this.#calmFrom, this.simulation.now + lastsMillis)
  }

  /** Does something when a fault ends. */
  #end(lastsMillis: number, run: () => void): void {
    this.simulation.schedule(lastsMillis, run)
  }

  #act(action: Action): void {
    const { network, simulation, store } = this
    simulation.log(() => describe(action))
    switch (action._tag) {
      case "Publish":
      case "Replay":
      case "EndCooldown":
      case "Remove": {
        const replica = this.replicas[action.replica]
        const to = this.destinations[action.destination]
        if (replica === undefined || to === undefined || !replica.isReady || replica.host.isFrozen) return
        return this.#request(replica, to, action)
      }
      case "Receiver":
        if (simulation.now < ACTION_MILLIS) this.receivers.setMode(action.destination, action.mode)
        return
      case "Kill":
        return this.#kill(action)
      case "Freeze":
      case "Suspend": {
        const replica = this.replicas[action.replica]
        if (replica === undefined || !replica.host.isAlive || replica.host.isFrozen) return
        this.#fault(action, action.replica, action.millis)
        replica.host.freeze()
        if (action._tag === "Suspend") replica.host.stopMonotonic()
        return this.#end(action.millis, () => {
          simulation.log(() => `${replica.owner}: continues`)
          if (action._tag === "Suspend") this.checks.stale.begin(replica)
          replica.host.thaw()
        })
      }
      case "Restart":
        return this.#restart(action.replica, action)
      case "RollOut": {
        let delay = 0
        for (let number = 0; number < this.plan.replicas; number++) {
          this.#fault(action, number, delay + 8_000)
          simulation.schedule(delay, () =>
            this.#restart(number, { _tag: "Restart", at: simulation.now, replica: number, downMillis: 300 })
          )
          delay += 3_000
        }
        return
      }
      case "StepClock": {
        const replica = this.replicas[action.replica]
        if (replica !== undefined) replica.host.wallSkewMillis += action.millis
        return this.#fault(action, action.replica, 0)
      }
      case "StepStoreClock":
        store.skewMillis += action.millis
        this.#steps.push({ at: simulation.now, millis: action.millis })
        // Leases may have ended by that clock without their owners knowing.
        for (const replica of this.replicas) if (replica !== undefined) this.checks.stale.begin(replica)
        // After a step back, the lease of a dead process lasts longer.
        return this.#fault(action, undefined, Math.max(0, -action.millis))
      case "CutConnections": {
        const host = action.replica === null ? undefined : this.replicas[action.replica]?.host
        this.#fault(action, action.replica ?? undefined, 0)
        for (const connection of network.connections(host)) connection.reset()
        return
      }
      case "SilenceConnections": {
        const host = this.replicas[action.replica]?.host
        // The service notices after 12 seconds, and has to open connections then.
        this.#fault(action, action.replica, 15_000)
        if (host !== undefined) for (const connection of network.connections(host)) connection.silence()
        return
      }
      case "DelayMessages": {
        const host = this.replicas[action.replica]?.host
        if (host === undefined) return
        this.#fault(action, action.replica, action.millis + 2 * action.delayMillis)
        network.delays.set(host, { millis: action.delayMillis, share: action.share })
        return this.#end(action.millis, () => void network.delays.delete(host))
      }
      case "LoseAnswers": {
        const host = this.replicas[action.replica]?.host
        if (host === undefined) return
        this.#fault(action, action.replica, action.millis)
        network.answerLoss.set(host, action.chance)
        return this.#end(action.millis, () => void network.answerLoss.delete(host))
      }
      case "RejectResults": {
        const to = this.destinations[action.destination]
        if (to === undefined) return
        this.#fault(action, undefined, action.millis)
        this.rejected.add(to.destination_id)
        return this.#end(action.millis, () => void this.rejected.delete(to.destination_id))
      }
      case "Partition": {
        const host = this.replicas[action.replica]?.host
        if (host === undefined) return
        this.#fault(action, action.replica, action.millis + 15_000)
        for (const connection of network.connections(host)) connection.silence()
        network.unreachableFrom.add(host)
        return this.#end(action.millis, () => void network.unreachableFrom.delete(host))
      }
      case "SlowStore":
        this.#fault(action, undefined, action.millis)
        store.slowMillis = action.statementMillis
        return this.#end(action.millis, () => {
          store.slowMillis = 0
        })
      case "FreezeStore":
        this.#fault(action, undefined, action.millis)
        store.freeze()
        return this.#end(action.millis, () => store.thaw())
      case "RestartStore":
        if (!store.isRunning) return
        this.#fault(action, undefined, action.downMillis)
        this.checks.stale.crashes(() => store.crash())
        return this.#end(action.downMillis, () => store.start())
      case "LoseNotifications":
        this.#fault(action, undefined, action.millis)
        this.notifications.lostUntil = Math.max(this.notifications.lostUntil, simulation.now + action.millis)
    }
  }

  #request(
    replica: Replica,
    to: Destination,
    action: Extract<Action, { readonly _tag: "Publish" | "Replay" | "EndCooldown" | "Remove" }>
  ): void {
    if (this.disabled.has(to.destination_id)) return
    switch (action._tag) {
      case "Publish":
        return replica.publish(to, action.count, action.openMillis)
      case "Replay": {
        for (const [id, entry] of this.model.log.committed()) {
          if (entry.destination_id === to.destination_id && entry.status === "failed") {
            return replica.replay(to, id)
          }
        }
        return
      }
      case "EndCooldown":
        this.cooldownsEnded.add(to.destination_id)
        return replica.endCooldown(to)
      case "Remove":
        return replica.remove(to)
    }
  }

  #kill(action: Extract<Action, { readonly _tag: "Kill" }>): void {
    const replica = this.replicas[action.replica]
    if (replica === undefined || !replica.host.isAlive) return
    this.#fault(action, action.replica, action.downMillis)
    const isStopping = replica.stoppingSince !== undefined
    replica.host.kill()
    // A stopped replica is started again by whoever stopped it.
    if (!isStopping) this.#end(action.downMillis, () => this.#startReplica(action.replica))
  }

  #restart(number: number, action: Extract<Action, { readonly _tag: "Restart" }>): void {
    const replica = this.replicas[number]
    if (replica === undefined || !replica.host.isAlive || replica.stoppingSince !== undefined) return
    // Not before it has started: the process manager waits.
    if (!replica.isReady) return
    this.#fault(action, number, action.downMillis + STOP_MILLIS)
    replica.stop()
    let isStarted = false
    const startAgain = () => {
      if (isStarted) return
      isStarted = true
      simulation.log(() => `${replica.owner}: has stopped`)
      simulation.schedule(action.downMillis, () => this.#startReplica(number))
    }
    const { simulation } = this
    replica.host.onDeath(() => {
      if (this.replicas[number] === replica && replica.stoppingSince !== undefined) startAgain()
    })
    simulation.schedule(STOP_MILLIS, () => {
      if (!replica.host.isAlive) return
      this.#fault({ _tag: "Kill", at: simulation.now, replica: number, downMillis: 0 }, number, 0)
      replica.host.kill()
    })
  }
}

const hex = (number: number): string => number.toString(16).padStart(32, "0")

const describe = ({ _tag, at: _, ...rest }: Action): string => `${_tag} ${JSON.stringify(rest)}`
