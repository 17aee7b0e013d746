import type { AttemptOutcome } from "../../../src/domain/delivery/DeliveryState.ts"
import { destinationVerdict } from "../../../src/domain/delivery/DeliveryState.ts"
import type { ChannelPolicy } from "../../../src/server/delivery/Channel.ts"
import { UNWRITABLE } from "../../../src/server/delivery/Delivery/Finisher.ts"
import type { QueuedDelivery } from "../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { defaultLease } from "../../../src/server/delivery/Delivery/Shards.ts"
import { shardOf, SHARDS } from "../../../src/server/delivery/Delivery/shardOf.ts"
import { BEGINNING } from "../core/Host.ts"
import type { Statement } from "../core/Store.ts"
import type { DeliveryModel, RecordedAttempt, ShardEntry, StoredHealth } from "./DeliveryModel.ts"
import { AFTERMATH_MILLIS, LEASE_FAULTS, quietSince } from "./aftermath.ts"
import type { Plan } from "./Plan.ts"
import { Records } from "./Records.ts"
import type { Replica } from "./Replica.ts"
import { StaleOwners } from "./StaleOwners.ts"
import { Waits } from "./Waits.ts"
import type { World } from "./World.ts"

/** A request to a receiver. */
export interface Attempt {
  readonly replica: Replica
  readonly delivery: QueuedDelivery
  readonly epoch: number
  readonly startedAt: number
  arrivedAt: number | undefined
  answered: number | undefined
  outcome: AttemptOutcome | "interrupted" | undefined
}

/** What is known of a published delivery. */
interface Published {
  readonly destination_id: string
  committedAt: number | undefined
  isAcknowledged: boolean
  /** When its last attempt began, by loading its payload, in milliseconds of the simulation. */
  loadedAt: number | undefined
  readonly attempts: Array<Attempt>
}

/** The health of a destination as an owner of its shard must see it. */
interface ExpectedHealth {
  failures: number
  round: number
  /** When the last cooldown began, and when it ends. */
  since: number
  until: number
}

/** A delivery is not overtaken by one for the same destination that was committed this much later. */
const OVERTAKING_MILLIS = 13_000

/** How long a read takes at most whose rows are not yet in memory, in milliseconds, if no clock is set meanwhile. */
const READ_MILLIS = 50

/** How long the fiber of an attempt takes at most from the answer to its result, in milliseconds. */
const NOTICE_MILLIS = 2

/** How long after the last fault the shards are balanced again, beyond its aftermath, in milliseconds. */
const BALANCE_MILLIS = 8_000

const TIMED_OUT: AttemptOutcome = { _tag: "Retry", error: "timed out", status: null, retryAfter: null }

/** Deliveries that one replica holds in memory for one destination: those waiting, in flight and not yet recorded. */
const MAX_HELD_BY_DESTINATION = 64 + 64

/**
 * What must hold at each step of a run, whatever happens. It sees what no replica can: the committed rows of the store,
 * and everything that the receivers got.
 */
export class Checks {
  readonly world: World
  readonly model: DeliveryModel
  readonly plan: Plan
  readonly policy: ChannelPolicy
  /** The first broken invariant. */
  broken: string | undefined
  readonly counts = { attempts: 0, published: 0, duplicates: 0, expiries: 0, claims: 0 }
  readonly published = new Map<string, Published>()
  readonly stale: StaleOwners
  readonly waits: Waits
  readonly #records: Records
  /** What each replica knows of rows, from reads, inserts and results that it recorded: the attempts, by row. */
  readonly #known = new Map<Replica, Map<number, Set<number>>>()
  /** When attempts began that count within the rates of a receiver, by replica and receiver. */
  readonly #paced = new Map<string, Array<number>>()
  readonly #inFlight = new Set<Attempt>()
  /** Attempts by row, attempt number and epoch. */
  readonly #started = new Set<string>()
  /** When the statement took its snapshot that recorded a row's last result, by row. */
  readonly #recordedFrom = new Map<number, number>()
  readonly #unrecorded = new Map<string, Set<Attempt>>()
  readonly #health = new Map<string, ExpectedHealth>()
  /** When each shard was claimed last. */
  readonly #claimedAt = new Map<number, number>()

  constructor(world: World) {
    this.world = world
    this.model = world.model
    this.plan = world.plan
    this.policy = world.policy
    this.stale = new StaleOwners(world)
    this.waits = new Waits(world)
    this.#records = new Records(
      world.model,
      (delivery_id) => this.published.get(delivery_id)?.attempts ?? [],
      world.plan.hasHook
    )
    world.model.observer = {
      queued: (row, insertedAt) => this.waits.queued(row, insertedAt),
      recorded: (list, snapshotAt) => this.#recorded(list, snapshotAt),
      healthSaved: (health, snapshotAt) => this.#healthSaved(health, snapshotAt),
      claimed: (before, after) => this.#claimed(before, after),
      released: (before) => this.#released(before)
    }
  }

  fail(reason: string): void {
    if (this.broken !== undefined) return
    this.broken = reason
    this.world.simulation.log(() => `BROKEN: ${reason}`)
  }

  /** A broken invariant, if one is. */
  #failIf(reason: string | undefined): void {
    if (reason !== undefined) this.fail(reason)
  }

  claimedAt(shard: number): number {
    return this.#claimedAt.get(shard) ?? 0
  }

  /** Follows an insert: which of its deliveries were committed, and when. */
  observed<A>(statement: Statement<A>, ids: ReadonlyArray<string>): Statement<A> {
    // oxlint-disable-next-line typescript/no-this-alias -- a statement is a generator, which has no arrow form
    const checks = this
    return function* (transaction) {
      transaction.onCommit(() => {
        for (const id of ids) {
          const entry = checks.model.log.committedRow(id)
          if (entry === undefined) continue
          checks.#of(id, entry.destination_id).committedAt ??= checks.world.simulation.now
        }
      })
      return yield* statement(transaction)
    }
  }

  acknowledge(ids: ReadonlyArray<string>): void {
    for (const id of ids) {
      this.counts.published++
      const found = this.published.get(id)
      if (found === undefined || this.model.log.committedRow(id) === undefined) {
        return this.fail(`${id} was acknowledged, but is not committed`)
      }
      found.isAcknowledged = true
    }
  }

  /** A replica knows of these rows at these attempts. */
  knows(replica: Replica, rows: ReadonlyArray<{ readonly seq: number; readonly attempt: number }>): void {
    const known = this.#known.get(replica) ?? new Map<number, Set<number>>()
    this.#known.set(replica, known)
    for (const { attempt, seq } of rows) known.set(seq, (known.get(seq) ?? new Set()).add(attempt))
  }

  loads(replica: Replica, delivery: QueuedDelivery): void {
    const { attempt, delivery_id, destination_id, seq } = delivery
    this.#of(delivery_id, destination_id).loadedAt = this.world.simulation.now
    this.waits.loads(replica, delivery)
    if (this.#known.get(replica)?.get(seq)?.has(attempt) !== true) {
      this.fail(
        `${replica.owner} is about to send attempt ${attempt + 1} of ${delivery_id}, which it neither read nor recorded the one before`
      )
    }
  }

  /** An attempt starts. */
  starts(replica: Replica, delivery: QueuedDelivery): Attempt {
    const { now } = this.world.simulation
    const { attempt, delivery_id, destination_id, seq } = delivery
    const shard = shardOf(destination_id)
    const epoch = replica.engine?.shards.owned.get(shard)?.epoch ?? -1
    const started: Attempt = {
      replica,
      delivery,
      epoch,
      startedAt: now,
      arrivedAt: undefined,
      answered: undefined,
      outcome: undefined
    }
    this.counts.attempts++
    this.world.simulation.log(
      () =>
        `${replica.owner}: sends attempt ${attempt + 1} of ${delivery_id} (row ${seq}, shard ${shard}, epoch ${epoch})`
    )
    const isStale = this.stale.is(replica)
    this.#checkLease(started, isStale)
    this.#checkRow(started, isStale)
    this.#checkLimits(started)
    this.#checkRates(started)
    this.#checkHealth(started, isStale)
    this.#checkOrder(started)
    const published = this.#of(delivery_id, destination_id)
    if (published.attempts.some((one) => one.delivery.seq === seq && one.delivery.attempt === attempt)) {
      this.counts.duplicates++
      this.world.simulation.log(() => `attempt ${attempt + 1} of ${delivery_id} is a duplicate`)
    }
    published.attempts.push(started)
    this.#inFlight.add(started)
    const key = `${shard}/${epoch}`
    const open = this.#unrecorded.get(key) ?? new Set()
    this.#unrecorded.set(key, open.add(started))
    return started
  }

  arrives(attempt: Attempt): void {
    attempt.arrivedAt = this.world.simulation.now
  }

  answers(attempt: Attempt, answer: { readonly status: number }): void {
    attempt.answered = answer.status
  }

  finishes(attempt: Attempt, outcome: AttemptOutcome): void {
    attempt.outcome = outcome
    this.#ends(attempt)
    this.#recordHealth(attempt, outcome)
  }

  interrupts(attempt: Attempt): void {
    attempt.outcome = "interrupted"
    this.#ends(attempt)
    // Not by the end of the process, but because it took too long.
    const isOverdue = this.world.simulation.now - attempt.startedAt > this.policy.deadlineMillis
    if (isOverdue) this.#recordHealth(attempt, TIMED_OUT)
  }

  #ends(attempt: Attempt): void {
    this.#inFlight.delete(attempt)
    this.waits.ends(attempt.replica)
    if (attempt.answered !== 200) this.waits.fails(attempt.delivery.destination_id)
  }

  /** A former owner does not overwrite the health that the current one decides on, unless it had taken its snapshot before the claim. */
  #healthSaved({ destination_id, epoch, shard }: StoredHealth, snapshotAt: number): void {
    const current = this.model.epochOf(shard)
    if (current === epoch || this.claimedAt(shard) >= snapshotAt) return
    this.fail(`The health of ${destination_id} is stored under epoch ${epoch}, and ${current} is current`)
  }

  #recorded(list: ReadonlyArray<RecordedAttempt>, snapshotAt: number): void {
    for (const { seq } of list) this.#recordedFrom.set(seq, snapshotAt)
    this.#failIf(this.#records.check(list))
  }

  /** The owner's lease must be long enough for the attempt, as the store sees it. */
  #checkLease({ delivery, epoch, replica }: Attempt, isStale: boolean): void {
    if (isStale) return
    const shard = shardOf(delivery.destination_id)
    const row = this.model.shards.committedRow(String(shard))
    const current = this.model.epochOf(shard)
    if (row?.owner !== replica.owner || current !== epoch) {
      return this.fail(
        `${replica.owner} starts an attempt of ${delivery.delivery_id} under epoch ${epoch} of shard ${shard}, which ${row?.owner ?? "nobody"} owns under epoch ${current}`
      )
    }
    const left =
      (this.model.leases.committedRow(replica.owner)?.lease_until ?? 0) - this.world.store.clockMillis()
    // Renewals that a crash lost, and forward steps of the store's clock, shorten the lease unnoticed.
    const unnoticed = this.world.forwardSteps(AFTERMATH_MILLIS) + this.stale.lostMillis(replica)
    if (left < defaultLease.marginMillis - unnoticed - 1) {
      this.fail(
        `${replica.owner} starts an attempt of ${delivery.delivery_id} with ${left.toFixed(0)} ms of its lease left`
      )
    }
  }

  /** Only the owner changes a row, so it sends what the row says, once. */
  #checkRow({ delivery, epoch, replica }: Attempt, isStale: boolean): void {
    const { attempt, delivery_id, seq } = delivery
    if (isStale) return
    const key = `${seq}/${attempt}/${epoch}`
    if (this.#started.has(key)) {
      return this.fail(
        `${replica.owner} sends attempt ${attempt + 1} of ${delivery_id} twice under epoch ${epoch}`
      )
    }
    this.#started.add(key)
    if (this.world.disabled.has(delivery.destination_id)) return
    // The former owner, which had taken its snapshot before the claim, may have recorded the result after the new one read the row.
    const claimedAt = this.claimedAt(shardOf(delivery.destination_id))
    if ((this.#recordedFrom.get(seq) ?? Infinity) <= claimedAt) return
    const row = this.model.queue.committedRow(String(seq))
    if (row === undefined) {
      const status = this.model.log.committedRow(delivery_id)?.status ?? "unknown"
      return this.fail(`${replica.owner} sends ${delivery_id} again, which is ${status} and no longer queued`)
    }
    if (row.attempt !== attempt) {
      this.fail(
        `${replica.owner} sends attempt ${attempt + 1} of ${delivery_id}, of which ${row.attempt} are recorded`
      )
    }
  }

  #checkLimits({ delivery, replica }: Attempt): void {
    const mine = [...this.#inFlight].filter((one) => one.replica === replica)
    const sameDestination = mine.filter((one) => one.delivery.destination_id === delivery.destination_id)
    const sameOrganization = mine.filter((one) => one.delivery.org_id === delivery.org_id)
    const isRetry = (one: QueuedDelivery) => one.attempt > one.first_attempt
    const retries = mine.filter((one) => isRetry(one.delivery))
    const { organizationSlots, retrySlots, slots } = this.plan.slots
    // Without the attempt that starts now.
    if (sameDestination.length >= this.policy.concurrency) {
      // Attempts of a lost shard may still be running when the shard is regained.
      const current = sameDestination.filter(
        (one) => one.epoch === replica.engine?.shards.owned.get(shardOf(delivery.destination_id))?.epoch
      )
      if (current.length >= this.policy.concurrency)
        this.fail(`${replica.owner} exceeds the concurrency of ${delivery.destination_id}`)
    }
    if (sameOrganization.length >= organizationSlots)
      this.fail(`${replica.owner} exceeds the slots of ${delivery.org_id}`)
    if (mine.length >= slots) this.fail(`${replica.owner} exceeds its slots`)
    if (isRetry(delivery) && retries.length >= retrySlots)
      this.fail(`${replica.owner} exceeds its slots for retries`)
  }

  #destinationsOf(receiver: string): number {
    return this.world.destinations.filter(
      ({ destination_id }) => this.world.receiverOf(destination_id) === receiver
    ).length
  }

  /** Within any second a receiver gets at most its rate, and a burst of as many again. */
  #checkRates({ delivery, replica }: Attempt): void {
    if (this.plan.rates === undefined) return
    const receiver = this.world.receiverOf(delivery.destination_id)
    const { perOrganization, total } = this.plan.rates
    const { now } = this.world.simulation
    for (const [name, perSecond] of [
      [`${replica.owner} ${receiver}`, total],
      [`${replica.owner} ${receiver} ${delivery.org_id}`, perOrganization]
    ] as const) {
      const times = [...(this.#paced.get(name) ?? []).filter((at) => at > now - 1_000), now]
      this.#paced.set(name, times)
      // One more, whose turn came a moment late; after a freeze, one for each destination whose turn came during it.
      const isThawed = this.world.faults.isExplained(replica.number, ["Freeze", "Suspend"], 1_000)
      const late = isThawed ? this.#destinationsOf(receiver) : 1
      if (times.length > 2 * perSecond + late) {
        this.fail(`${replica.owner} makes ${times.length} requests within a second to ${receiver}`)
      }
    }
  }

  /** A new owner of a shard goes on with the stored health. */
  #healthOf({ delivery, epoch }: Attempt): ExpectedHealth {
    const key = `${delivery.destination_id}/${epoch}`
    const found = this.#health.get(key)
    if (found !== undefined) return found
    const stored = this.model.health.committedRow(`${delivery.org_id}/${delivery.destination_id}`)
    const leftMillis = (stored?.cooldown_until ?? 0) - this.world.store.clockMillis()
    const health = {
      failures: stored?.consecutive_failures ?? 0,
      round: stored?.cooldown_round ?? 0,
      since: 0,
      // It was read some time ago.
      until: this.world.simulation.now + leftMillis - READ_MILLIS
    }
    this.#health.set(key, health)
    return health
  }

  /** Nothing is sent to a destination in cooldown, and one attempt at a time after it. */
  #checkHealth(attempt: Attempt, isStale: boolean): void {
    // The current owner decides on the health, which a former one may have read.
    if (isStale) return
    const { now } = this.world.simulation
    const health = this.#healthOf(attempt)
    const { destination_id } = attempt.delivery
    if (this.world.cooldownsEnded.has(destination_id) || health.round === 0) return
    // Cooldowns of before are stored as times of the store's clock.
    if (this.world.faults.isExplained(undefined, ["StepStoreClock"], AFTERMATH_MILLIS)) return
    // An attempt that was being loaded when the cooldown began is made.
    const beganAt = this.published.get(attempt.delivery.delivery_id)?.loadedAt ?? now
    if (beganAt <= health.since + NOTICE_MILLIS) return
    if (health.until > now + 1) {
      return this.fail(
        `${destination_id} gets an attempt ${(health.until - now).toFixed(0)} ms before its cooldown ends`
      )
    }
    const running = [...this.#inFlight].filter(
      (one) =>
        one.delivery.destination_id === destination_id &&
        one.epoch === attempt.epoch &&
        one.replica === attempt.replica &&
        one.startedAt >= health.until + NOTICE_MILLIS
    )
    if (running.length > 0 && now > health.until + NOTICE_MILLIS)
      this.fail(`${destination_id} gets two attempts at once while it is probed`)
  }

  /** The rule of docs/concepts.md, written again: failures in a row, doubling cooldowns, one success ends all. */
  #recordHealth(attempt: Attempt, outcome: AttemptOutcome): void {
    const owned = attempt.replica.engine?.shards.owned.get(shardOf(attempt.delivery.destination_id))
    if (owned?.epoch !== attempt.epoch) return
    const { now } = this.world.simulation
    const health = this.#healthOf(attempt)
    const { failureThreshold, firstMillis, longestMillis } = this.policy.cooldown
    switch (destinationVerdict(outcome)) {
      case "ignored":
        return
      case "success":
        health.failures = 0
        health.round = 0
        health.until = 0
        return
      case "failure": {
        health.failures++
        // An attempt that began before the cooldown ended is no probe, nor one that was loaded before it began: a suspension may lie between.
        const { delivery, startedAt } = attempt
        const loadedAt = this.published.get(delivery.delivery_id)?.loadedAt ?? startedAt
        const isProbe = health.until <= startedAt && health.since + NOTICE_MILLIS < loadedAt
        const begins = health.round === 0 ? health.failures >= failureThreshold : isProbe
        if (!begins) return
        health.round++
        health.since = now
        health.until = now + Math.min(longestMillis, firstMillis * 2 ** (health.round - 1))
      }
    }
  }

  /** Deliveries of one destination are first tried in the order of their numbers, except close ones. */
  #checkOrder({ delivery, replica }: Attempt): void {
    if (delivery.attempt > 0) return
    // A new owner sends what it reads first; it needs a sweep to know what waited before.
    const claimedAt = this.#claimedAt.get(shardOf(delivery.destination_id)) ?? 0
    if (this.world.simulation.now - claimedAt < OVERTAKING_MILLIS) return
    if (this.world.faults.isExplained(replica.number, LEASE_FAULTS, AFTERMATH_MILLIS)) return
    const mine = this.published.get(delivery.delivery_id)?.committedAt
    if (mine === undefined) return
    const dueAt = this.model.queue.committedRow(String(delivery.seq))?.due_at ?? -Infinity
    for (const [, row] of this.model.queue.committed()) {
      if (row.destination_id !== delivery.destination_id || row.seq >= delivery.seq || row.attempt > 0)
        continue
      // After the store's clock was set back, what is queued later may be due earlier.
      if (row.due_at >= dueAt) continue
      const other = this.published.get(row.delivery_id)
      if (other?.committedAt === undefined || other.loadedAt !== undefined) continue
      // One that had to wait for the clock is not in memory: a sweep finds it.
      const dueSince = row.due_at - BEGINNING - this.world.store.skewMillis
      if (dueSince > other.committedAt + OVERTAKING_MILLIS) continue
      if (other.committedAt < mine - OVERTAKING_MILLIS) {
        return this.fail(
          `${delivery.delivery_id} overtakes ${row.delivery_id}, which was committed long before`
        )
      }
    }
  }

  /** A lease ends only because of a fault. */
  #claimed(before: ShardEntry, after: ShardEntry): void {
    this.counts.claims++
    this.#claimedAt.set(after.shard, this.world.simulation.now)
    this.world.simulation.log(
      () =>
        `${after.owner} claims shard ${after.shard} under epoch ${after.epoch}${before.owner === null ? "" : ` from ${before.owner}`}`
    )
    if (after.epoch <= before.epoch) this.fail(`Shard ${after.shard} changes its owner without a new epoch`)
    if (before.owner === null) return
    this.counts.expiries++
    const previous = this.world.replicaOf(before.owner)
    // The lease of a dead process ends in any case.
    if (previous === undefined || !previous.host.isAlive) return
    if (
      !this.world.faults.isExplained(previous.number, LEASE_FAULTS, AFTERMATH_MILLIS) &&
      before.owner !== after.owner
    ) {
      this.fail(
        `${after.owner} claims shard ${after.shard}, as the lease of ${before.owner} ended without a fault`
      )
    }
  }

  /** A shard is released only when its attempts are recorded. */
  #released(before: ShardEntry): void {
    this.world.simulation.log(() => `${before.owner} releases shard ${before.shard}`)
    const replica = before.owner === null ? undefined : this.world.replicaOf(before.owner)
    const isForced =
      replica?.stoppingSince !== undefined && this.world.simulation.now - replica.stoppingSince >= 5_900
    if (isForced) return
    const key = `${before.shard}/${this.model.epochOf(before.shard)}`
    for (const attempt of this.#unrecorded.get(key) ?? []) {
      const { attempt: number, delivery_id, seq } = attempt.delivery
      const row = this.model.queue.committedRow(String(seq))
      if (attempt.outcome === "interrupted" || row === undefined || row.attempt !== number) continue
      this.fail(
        `${before.owner} releases shard ${before.shard} while attempt ${number + 1} of ${delivery_id} is not recorded`
      )
    }
    this.#unrecorded.delete(key)
  }

  /** Checked a few times a second. */
  checkRegularly(): void {
    const { replicas, simulation } = this.world
    for (const replica of replicas) if (replica !== undefined) this.#checkReplica(replica)
    this.#failIf(this.waits.check())
    this.#failIf(this.stale.check())
    if (simulation.now - quietSince(this.world.faults) > BALANCE_MILLIS) this.#failIf(this.#imbalance()[0])
  }

  #checkReplica(replica: Replica): void {
    const { engine } = replica
    if (engine === undefined || !replica.host.isAlive) return
    for (const { shard, unfinished } of engine.shards.owned.values()) {
      if (unfinished < 0) this.fail(`${replica.owner} counts ${unfinished} unfinished for shard ${shard}`)
    }
    const { deliveries } = engine.dispatcher.inMemory()
    const most = this.plan.destinations.length * MAX_HELD_BY_DESTINATION
    if (deliveries > most) this.fail(`${replica.owner} holds ${deliveries} deliveries in memory`)
  }

  /** What is left to do, once nothing disturbs any more; empty if nothing is. */
  unfinished(): ReadonlyArray<string> {
    const reasons: Array<string> = []
    for (const [, row] of this.model.queue.committed()) {
      reasons.push(`${row.delivery_id} is still queued (attempt ${row.attempt})`)
      if (reasons.length > 3) return reasons
    }
    reasons.push(...this.#imbalance())
    const replicas = this.world.replicas.filter(({ host }) => host.isAlive)
    for (const replica of replicas) {
      const { engine } = replica
      if (engine === undefined) continue
      const { deliveries, lanes } = engine.dispatcher.inMemory()
      if (deliveries > 0 || lanes > 0)
        reasons.push(`${replica.owner} holds ${lanes} lanes and ${deliveries} deliveries`)
      for (const one of engine.shards.owned.values()) {
        if (one.unfinished !== 0)
          reasons.push(`${replica.owner} counts ${one.unfinished} unfinished for shard ${one.shard}`)
      }
    }
    return reasons
  }

  /** Every shard has an owner, and no replica has more than its share. */
  #imbalance(): ReadonlyArray<string> {
    const reasons: Array<string> = []
    const replicas = this.world.replicas.filter(({ host }) => host.isAlive)
    const share = Math.ceil(SHARDS / replicas.length)
    const owned = new Map<string, number>()
    for (const [, { owner, shard }] of this.model.shards.committed()) {
      if (owner === null || !replicas.some((one) => one.owner === owner))
        reasons.push(`shard ${shard} has no live owner`)
      else owned.set(owner, (owned.get(owner) ?? 0) + 1)
    }
    for (const { owner } of replicas) {
      const count = owned.get(owner) ?? 0
      if (count > share) reasons.push(`${owner} owns ${count} shards, more than its share`)
    }
    return reasons
  }

  /** At the end: nothing was lost, and each delivery ended for a reason that users know. */
  checkRecords(): void {
    for (const [id, { attempts, isAcknowledged }] of this.published) {
      const entry = this.model.log.committedRow(id)
      if (entry === undefined) {
        if (isAcknowledged || attempts.length > 0) this.fail(`${id} was acknowledged or sent, and is lost`)
        continue
      }
      if (entry.status === "pending") this.fail(`${id} is neither delivered nor failed`)
      if (!this.#records.isComplete(id, entry)) {
        this.fail(`${id} counts ${entry.attempts} attempts, and logs others`)
      }
      this.#checkFailure(id, entry, attempts)
    }
  }

  /** A delivery fails only for a reason that users know. */
  #checkFailure(
    id: string,
    entry: {
      readonly status: string
      readonly attempts: number
      readonly last_error: string | null
      readonly destination_id: string
    },
    attempts: ReadonlyArray<Attempt>
  ): void {
    if (entry.status !== "failed") return
    const isKnown =
      entry.attempts >= this.policy.retry.delaysMillis.length ||
      entry.last_error === "queue full" ||
      entry.last_error === UNWRITABLE ||
      this.policy.retry.maxElapsedMillis !== null ||
      this.world.disabled.has(entry.destination_id) ||
      attempts.some(({ answered }) => answered === 400 || answered === 410)
    if (!isKnown) this.fail(`${id} failed after ${entry.attempts} attempts: ${entry.last_error}`)
  }

  #of(delivery_id: string, destination_id: string): Published {
    const found = this.published.get(delivery_id) ?? {
      destination_id,
      committedAt: undefined,
      isAcknowledged: false,
      loadedAt: undefined,
      attempts: []
    }
    this.published.set(delivery_id, found)
    return found
  }
}
