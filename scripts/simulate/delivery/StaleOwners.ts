import { monotonicMillis } from "../../../src/server/concurrency/monotonicMillis.ts"
import type { OwnedShard } from "../../../src/server/delivery/Delivery/Shards.ts"
import { defaultLease } from "../../../src/server/delivery/Delivery/Shards.ts"
import type { Replica } from "./Replica.ts"
import type { World } from "./World.ts"

/** How long the fiber of a renewal takes at most from the answer to its consequences, in milliseconds. */
const NOTICE_MILLIS = 2

/** How long a process takes at most from a refused result to its renewal, if nothing else is to be done, in milliseconds. */
const CONFIRM_MILLIS = 60

interface Stale {
  readonly since: number
  until: number
}

/**
 * Processes that cannot know that they have lost shards: their monotonic clock stood still, or the clock of the store
 * was set so far that leases ended early. Each of them knows with its next renewal.
 */
export class StaleOwners {
  readonly #world: World
  readonly #stale = new Map<Replica, Stale>()
  /** Results that were refused although the process still believed in its lease: when. */
  readonly #refused = new Map<Replica, number>()
  readonly #refusedAt = new Map<Replica, number>()
  /** When each process last renewed its leases, and last read the tail of its queue, on its own monotonic clock. */
  readonly #renewedAt = new Map<string, number>()
  readonly #readAt = new Map<string, number>()
  /** Statements on leases that are under way, and when the last one failed. */
  readonly #busy = new Map<Replica, number>()
  readonly #failedAt = new Map<Replica, number>()
  readonly #lost = new Map<string, number>()

  constructor(world: World) {
    this.#world = world
  }

  /** Crashes the store, which shortens the leases whose renewal it loses, until their owners renew them again. */
  crashes(crash: () => void): void {
    const { leases } = this.#world.model
    const before = new Map(leases.committed())
    crash()
    for (const [owner, { lease_until }] of leases.committed()) {
      const lost = (before.get(owner)?.lease_until ?? 0) - lease_until
      if (lost > 0) this.#lost.set(owner, Math.max(lost, this.#lost.get(owner) ?? 0))
    }
  }

  /** By how much a lease ends earlier than its owner can know, in milliseconds. */
  lostMillis({ owner }: Replica): number {
    return this.#lost.get(owner) ?? 0
  }

  begin(replica: Replica): void {
    this.#stale.set(replica, { since: this.#world.simulation.now, until: Infinity })
  }

  is(replica: Replica): boolean {
    return (this.#stale.get(replica)?.until ?? -Infinity) >= this.#world.simulation.now
  }

  /** A statement on leases begins. The returned function is called when it has ended. */
  works(replica: Replica): (succeeded: boolean) => void {
    this.#busy.set(replica, (this.#busy.get(replica) ?? 0) + 1)
    return (succeeded) => {
      this.#busy.set(replica, (this.#busy.get(replica) ?? 1) - 1)
      if (!succeeded) this.#failedAt.set(replica, this.#world.simulation.now)
    }
  }

  /** A renewal begins. The returned function is called when it was answered. */
  renews(replica: Replica): () => void {
    const { now } = this.#world.simulation
    this.#refused.delete(replica)
    const hadLost = new Set(this.#lost.keys())
    return () => {
      if (hadLost.has(replica.owner)) this.#lost.delete(replica.owner)
      this.#renewedAt.set(replica.owner, monotonicMillis(replica.host.clock))
      const stale = this.#stale.get(replica)
      if (stale !== undefined && stale.since <= now) {
        stale.until = Math.min(stale.until, this.#world.simulation.now + NOTICE_MILLIS)
      }
    }
  }

  /** A process has read the tail of its queue. */
  reads({ host, owner }: Replica): void {
    this.#readAt.set(owner, monotonicMillis(host.clock))
  }

  /** A process learns that a result was refused. */
  refused(replica: Replica, owned: OwnedShard): void {
    const { now } = this.#world.simulation
    this.#world.simulation.log(
      () => `${replica.owner}: a result of shard ${owned.shard}, epoch ${owned.epoch}, is refused`
    )
    if (replica.engine?.shards.owned.get(owned.shard) !== owned) return
    const last = this.#refusedAt.get(replica) ?? -Infinity
    this.#refusedAt.set(replica, now)
    // Once between two regular renewals. A process that could not work lets its leases end.
    if (now - last < 2 * defaultLease.renewMillis || !this.#canRenew(replica)) return
    // A renewal that is under way is completed first; after a failed one the process waits.
    const hasFailed = now - (this.#failedAt.get(replica) ?? -Infinity) < 2 * defaultLease.renewMillis
    if ((this.#busy.get(replica) ?? 0) === 0 && !hasFailed) this.#refused.set(replica, now)
  }

  /** Whether a process has renewed its leases and read its queue not long ago, by its clock. One that cannot read lets its leases end. */
  #canRenew({ host, owner }: Replica): boolean {
    const now = monotonicMillis(host.clock)
    const since = (times: ReadonlyMap<string, number>) => now - (times.get(owner) ?? -Infinity)
    const { leaseMillis, renewMillis } = defaultLease
    return since(this.#renewedAt) < renewMillis + NOTICE_MILLIS && since(this.#readAt) < leaseMillis / 2
  }

  /** The first broken promise: a process does not renew soon after a refused result. */
  check(): string | undefined {
    for (const [replica, at] of this.#refused) {
      if (!replica.host.isAlive || replica.host.isFrozen || replica.stoppingSince !== undefined) {
        this.#refused.delete(replica)
      } else if (this.#world.simulation.now - at > CONFIRM_MILLIS) {
        return `${replica.owner} does not renew its leases although a result was refused`
      }
    }
    return undefined
  }
}
