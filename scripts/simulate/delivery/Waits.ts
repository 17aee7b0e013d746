import { defaultLease } from "../../../src/server/delivery/Delivery/Shards.ts"
import type { Engine } from "../../../src/server/delivery/Delivery/Engine.ts"
import { shardOf } from "../../../src/server/delivery/Delivery/shardOf.ts"
import { isRetry, type QueuedDelivery } from "../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { BEGINNING } from "../core/Host.ts"
import type { QueueEntry } from "./DeliveryModel.ts"
import { quietSince } from "./aftermath.ts"
import type { Replica } from "./Replica.ts"
import type { World } from "./World.ts"

/**
 * How long a due delivery waits at most in a replica that nothing disturbs and whose limits are not reached, in
 * milliseconds. The second is for when a notification may have been lost or late: then the queue is polled every second.
 */
const WAIT_MILLIS = 700
const POLLED_WAIT_MILLIS = 1_800

/** After a claim the shards are swept one after the other, in milliseconds. */
const CLAIM_MILLIS = 1_000

/** As in Reader.ts: a row that commits later than this after its insert is found by the next sweep, in milliseconds. */
const STABLE_MILLIS = 1_900
const SWEEP_MILLIS = 5_000

/** How long a process that has started may still wait for others to hand shards over, in milliseconds. */
const START_MILLIS = 5_000

/** A statement that took longer than this delays what depends on it, in milliseconds. */
const SLOW_MILLIS = 30

/** As `REREAD_COST_FACTOR` of Reader.ts: a slow read is not repeated for this many times its duration. */
const SLOW_FACTOR = 11

/**
 * How many attempts another destination of the same organization may start while a delivery waits for a slot. Lanes take
 * turns: one turn each, one that was decided before, and one more for each round of renewals, which wakes all lanes.
 */
const TURNS = 4
const RENEWAL_MILLIS = 1_500

/** What a replica is doing. */
interface Work {
  /** Deliveries that are being loaded or sent. */
  readonly open: Map<QueuedDelivery, { readonly at: number }>
  /** When each limit was last reached, by name. */
  readonly fullAt: Map<string, number>
  /** When attempts began, by destination. */
  readonly turns: Map<string, Array<number>>
  /** Until when a slow statement explains a wait. */
  slowUntil: number
  /** Statements of the engine that are under way, and when they began. */
  readonly statements: Map<object, number>
}

/**
 * Fairness: a delivery that is due is sent soon, unless a limit that applies to it is reached; and while one is, lanes
 * take turns. So a destination that hangs or is slow holds others up only by the slots that it may have.
 */
export class Waits {
  readonly #world: World
  /** When each row was committed; later by a sweep for one of a transaction that was open for long. */
  readonly #queuedAt = new Map<number, number>()
  /** The attempt that was loaded last, by row. */
  readonly #loaded = new Map<number, { readonly attempt: number; readonly epoch: number }>()
  readonly #work = new Map<Replica, Work>()
  readonly #unwellAt = new Map<string, number>()
  /** Until when a process that has started may still get shards from others. */
  #unsteadyUntil = 0

  constructor(world: World) {
    this.#world = world
  }

  queued({ seq }: QueueEntry, insertedAt: number): void {
    const { now } = this.#world.simulation
    this.#queuedAt.set(seq, now - insertedAt > STABLE_MILLIS ? now + SWEEP_MILLIS : now)
  }

  started(): void {
    this.#unsteadyUntil = this.#world.simulation.now + START_MILLIS
  }

  /** A statement of the engine begins; the returned function is called when it has ended. */
  statement(replica: Replica): () => void {
    const { simulation } = this.#world
    const key = {}
    const work = this.#of(replica)
    const began = simulation.now
    work.statements.set(key, began)
    return () => {
      work.statements.delete(key)
      const took = simulation.now - began
      if (took <= SLOW_MILLIS) return
      work.slowUntil = Math.max(work.slowUntil, simulation.now + took * SLOW_FACTOR)
    }
  }

  loads(replica: Replica, delivery: QueuedDelivery): void {
    const { now } = this.#world.simulation
    const { attempt, destination_id, seq } = delivery
    const work = this.#of(replica)
    this.#prune(replica, work)
    // An attempt that ended since the last look, and whose delivery is read and sent again, is not open any more.
    for (const one of work.open.keys()) if (one.delivery_id === delivery.delivery_id) work.open.delete(one)
    work.open.set(delivery, { at: now })
    const turns = work.turns.get(destination_id) ?? []
    turns.push(now)
    work.turns.set(destination_id, turns)
    const epoch = replica.engine?.shards.owned.get(shardOf(destination_id))?.epoch ?? -1
    this.#loaded.set(seq, { attempt, epoch })
    this.#noteLimits(replica, work)
  }

  /** An attempt is about to end. */
  ends(replica: Replica): void {
    this.#noteLimits(replica, this.#of(replica))
  }

  /** Checked a few times a second. */
  check(): string | undefined {
    const { disabled, model, replicas, simulation } = this.#world
    for (const replica of replicas) {
      if (replica === undefined || !replica.host.isAlive || replica.engine === undefined) continue
      const wrong = this.#checkMemory(replica, this.#of(replica))
      if (wrong !== undefined) return wrong
      this.#noteLimits(replica, this.#of(replica))
      this.#noteHandovers(replica.engine, this.#of(replica))
      // A cooldown begins in memory, and its statement may take long.
      for (const [lane, { _tag }] of replica.engine.dispatcher.unsavedHealth(Number.POSITIVE_INFINITY)) {
        if (_tag !== "Healthy") this.fails(lane.destination_id)
      }
    }
    for (const [key, { cooldown_round }] of model.health.committed()) {
      if (cooldown_round > 0) this.fails(key.slice(key.indexOf("/") + 1))
    }
    const steadySince = Math.max(quietSince(this.#world.faults), this.#unsteadyUntil)
    if (steadySince >= simulation.now) return undefined
    for (const [, row] of model.queue.committed()) {
      if (disabled.has(row.destination_id)) continue
      const wrong = this.#checkRow(row, steadySince)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }

  /** A destination failed: it may be in cooldown before that is stored. */
  fails(destination_id: string): void {
    this.#unwellAt.set(destination_id, this.#world.simulation.now)
  }

  #checkRow(row: QueueEntry, quietSince: number): string | undefined {
    const { checks, model, notifications, plan, simulation, store } = this.#world
    const { now } = simulation
    const owner = this.#world.replicaOf(model.shards.committedRow(String(row.shard))?.owner ?? "")
    if (owner?.engine === undefined || owner.host.isFrozen) return undefined
    const loaded = this.#loaded.get(row.seq)
    if (loaded?.attempt === row.attempt && loaded.epoch === model.epochOf(row.shard)) return undefined
    // Rates of receivers hold deliveries back for as long as they say.
    if (plan.rates !== undefined) return undefined
    const work = this.#of(owner)
    // Also those of others: rows are read by the poll while the notification of their publisher is slow.
    for (const one of this.#work.values()) {
      if ([...one.statements.values()].some((began) => now - began > SLOW_MILLIS)) {
        one.slowUntil = Math.max(one.slowUntil, now)
      }
    }
    const full = (limit: string) => work.fullAt.get(limit) ?? 0
    const queuedAt = this.#queuedAt.get(row.seq) ?? 0
    const dueAt = row.due_at - BEGINNING - store.skewMillis
    const readyAt = Math.max(
      queuedAt,
      dueAt,
      quietSince,
      checks.claimedAt(row.shard) + CLAIM_MILLIS,
      (this.#unwellAt.get(row.destination_id) ?? -Infinity) + 100,
      work.slowUntil,
      full("lease"),
      full(`shard ${row.shard}`) + RENEWAL_MILLIS,
      full(`destination ${row.destination_id}`)
    )
    const isRetried = row.attempt > row.first_attempt
    const slotAt = Math.max(
      readyAt,
      full("slots"),
      full(`organization ${row.org_id}`),
      isRetried ? full("retries") : 0
    )
    const isPolled =
      this.#world.faults.isExplained(undefined, ["LoseNotifications"], POLLED_WAIT_MILLIS) ||
      now - notifications.lateAt < 2 * POLLED_WAIT_MILLIS ||
      [...this.#work.values()].some(({ slowUntil }) => now - slowUntil < POLLED_WAIT_MILLIS)
    const waited = now - slotAt
    if (waited > (isPolled ? POLLED_WAIT_MILLIS : WAIT_MILLIS)) {
      return `${row.delivery_id} (row ${row.seq}) waits for ${waited.toFixed(0)} ms although nothing holds it back`
    }
    return isRetried ? undefined : this.#checkTurns(row, work, now - readyAt)
  }

  #checkTurns(row: QueueEntry, work: Work, waited: number): string | undefined {
    // Until then it may not have been read.
    if (waited <= POLLED_WAIT_MILLIS) return undefined
    const since = this.#world.simulation.now - waited + POLLED_WAIT_MILLIS
    const turnsOf = (destination_id: string) =>
      (work.turns.get(destination_id) ?? []).filter((at) => at > since).length
    // It may wait behind others for the same destination.
    const most = turnsOf(row.destination_id) + TURNS + Math.ceil(waited / RENEWAL_MILLIS)
    for (const { destination_id, org_id } of this.#world.destinations) {
      if (org_id !== row.org_id || destination_id === row.destination_id) continue
      const turns = turnsOf(destination_id)
      if (turns > most) {
        return `${destination_id} starts ${turns} attempts while ${row.delivery_id} waits for ${waited.toFixed(0)} ms for a slot of the same organization`
      }
    }
    return undefined
  }

  #checkMemory(replica: Replica, work: Work): string | undefined {
    const { engine } = replica
    if (engine === undefined || replica.stoppingSince !== undefined) return undefined
    this.#prune(replica, work)
    const inFlight = [...engine.dispatcher.attemptsInFlight().values()].reduce((sum, count) => sum + count, 0)
    if (inFlight !== work.open.size)
      return `${replica.owner} counts ${inFlight} attempts in flight, and ${work.open.size} are`
    return undefined
  }

  #noteLimits(replica: Replica, work: Work): void {
    const { now } = this.#world.simulation
    const { concurrency, slots } = this.#world.plan
    this.#prune(replica, work)
    if (this.#hasShortLease(replica)) work.fullAt.set("lease", now)
    const counts = new Map<string, number>()
    const count = (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1)
    for (const delivery of work.open.keys()) {
      count("slots")
      count(`organization ${delivery.org_id}`)
      count(`destination ${delivery.destination_id}`)
      if (isRetry(delivery)) count("retries")
    }
    for (const [name, running] of counts) {
      const limit =
        name === "slots"
          ? slots.slots
          : name === "retries"
            ? slots.retrySlots
            : name.startsWith("org")
              ? slots.organizationSlots
              : concurrency
      if (running >= limit) work.fullAt.set(name, now)
    }
  }

  /** Nothing begins in a shard that is handed over: it is released by the first renewal after its attempts in flight have ended. */
  #noteHandovers({ shards }: Engine, work: Work): void {
    for (const { draining, shard, unfinished } of shards.owned.values())
      if (draining && unfinished > 0) work.fullAt.set(`shard ${shard}`, this.#world.simulation.now)
  }

  /** Whether no attempt may start, as too little of a lease is left: each of the last renewals was slow. */
  #hasShortLease({ owner }: Replica): boolean {
    const { model, store } = this.#world
    const until = store.clockMillis() + defaultLease.marginMillis + SLOW_MILLIS
    const lease = model.leases.committedRow(owner)
    return lease !== undefined && lease.lease_until < until
  }

  /** What the engine no longer sends is not open. */
  #prune({ engine }: Replica, work: Work): void {
    for (const delivery of work.open.keys()) {
      if (engine?.dispatcher.isSending(delivery.delivery_id) !== true) work.open.delete(delivery)
    }
  }

  #of(replica: Replica): Work {
    const found = this.#work.get(replica) ?? {
      open: new Map(),
      fullAt: new Map(),
      turns: new Map(),
      slowUntil: 0,
      statements: new Map()
    }
    this.#work.set(replica, found)
    return found
  }
}
