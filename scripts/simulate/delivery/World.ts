import { Simulation } from "../core/Simulation.ts"
import { Store } from "../core/Store.ts"
import { StoreNetwork } from "../core/StoreClient.ts"
import { Notifications } from "../core/Notifications.ts"
import { EventId, OrgId } from "../../../src/domain/Ids.ts"
import { type ChannelPolicy, defaultChannelPolicy } from "../../../src/server/delivery/Channel.ts"
import { Faults } from "../core/Faults.ts"
import { type Outcome, runToEnd } from "../core/runToEnd.ts"
import type { DeliveryFaults } from "./aftermath.ts"
import { Checks } from "./Checks.ts"
import { DeliveryModel } from "./DeliveryModel.ts"
import { ACTION_MILLIS, type Action, type Plan } from "./Plan.ts"
import { Receivers } from "./Receivers.ts"
import { type Destination, Replica } from "./Replica.ts"

/** How long everything may take once nothing disturbs any more, in milliseconds. */
const RECOVERY_MILLIS = 150_000

/** How often the checks look at all replicas, in milliseconds. */
const CHECK_EVERY_MILLIS = 250

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
  readonly faults: DeliveryFaults
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
    this.faults = new Faults({
      network: this.network,
      notifications: this.notifications,
      replicas: this.replicas,
      start: (number) => this.#startReplica(number),
      onResume: (number) => this.#doubtLease(this.replicas[number]),
      onStoreClockStep: (millis) => {
        this.#steps.push({ at: this.simulation.now, millis })
        // Leases may have ended by that clock without their owners knowing.
        this.replicas.forEach((replica) => this.#doubtLease(replica))
      },
      crashing: (crash) => this.checks.stale.crashes(crash)
    })
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
      const left = simulation.now < this.#calmFrom() ? ["calm"] : checks.unfinished()
      if (left.length === 0) {
        this.#isFinished = true
        checks.checkRecords()
      } else if (simulation.now > this.#calmFrom() + RECOVERY_MILLIS) {
        checks.fail(`After ${RECOVERY_MILLIS / 1000} s without a fault: ${left.slice(0, 4).join("; ")}`)
      } else simulation.schedule(500, look)
    }
    simulation.schedule(ACTION_MILLIS + 1, look)
    return runToEnd({
      simulation,
      store: this.store,
      checks,
      isFinished: () => this.#isFinished,
      faults: plan.actions.length
    })
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

  #doubtLease(replica: Replica | undefined): void {
    if (replica !== undefined) this.checks.stale.begin(replica)
  }

  #startReplica(number: number): void {
    const starts = this.#all.filter((one) => one.number === number).length
    const replica = new Replica(this, number, starts)
    this.simulation.log(() => `${replica.owner}: starts`)
    this.checks.waits.started()
    this.replicas[number] = replica
    this.#all.push(replica)
  }

  /** When the last fault that is known ends, or the time of faults. */
  #calmFrom(): number {
    return Math.max(ACTION_MILLIS, this.faults.calmFrom)
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

  #act(action: Action): void {
    const { simulation } = this
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
      case "RejectResults": {
        const to = this.destinations[action.destination]
        if (to === undefined) return
        this.faults.note(action._tag, undefined, action.millis)
        this.rejected.add(to.destination_id)
        simulation.schedule(action.millis, () => void this.rejected.delete(to.destination_id))
        return
      }
      default:
        return this.faults.inject(action)
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
}

const hex = (number: number): string => number.toString(16).padStart(32, "0")

const describe = ({ _tag, at: _, ...rest }: Action): string => `${_tag} ${JSON.stringify(rest)}`
