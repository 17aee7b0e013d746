import { isRetry, type QueuedDelivery } from "./QueuedDelivery.ts"
import type { Lane } from "./Lane.ts"

/** Limits on concurrent attempts in one replica. */
export interface SlotOptions {
  /** All attempts. */
  readonly slots: number
  /** Retries; the rest of `slots` is reserved for first attempts. */
  readonly retrySlots: number
  /** Attempts of one organization. */
  readonly organizationSlots: number
}

/**
 * A waiting attempt costs a socket and its payload, so the limits are high: receivers that take seconds per request,
 * eight at a time, fill them only if there are a hundred of them. One organization takes at most a sixteenth, and of a
 * webhook channel's 768 slots a quarter is reserved for first attempts.
 */
export const defaultSlots: SlotOptions = { slots: 1_024, retrySlots: 576, organizationSlots: 64 }

/** Lanes woken when one slot is released. */
const WAKE_LANES = 4

/** Concurrent attempts of one kind, and the lanes waiting for one of them to end: first come, first served. */
class ConcurrencyLimit {
  running = 0
  /** Lanes that were woken and found no slot. They come first, or a lane could be overtaken again and again. */
  readonly #returned = new Set<Lane>()
  readonly #waiting = new Set<Lane>()
  /** Lanes that were woken, and got no slot since. */
  readonly #woken = new Set<Lane>()

  /** Makes a lane wait that found no free slot. */
  wait(lane: Lane): void {
    if (this.#woken.delete(lane)) this.#returned.add(lane)
    else if (!this.#returned.has(lane)) this.#waiting.add(lane)
  }

  /** A lane has a slot. For its next one it waits behind the others. */
  acquire(lane: Lane): void {
    this.running++
    this.cancel(lane)
  }

  /** Ends the waiting of a lane. */
  cancel(lane: Lane): void {
    for (const lanes of [this.#returned, this.#waiting, this.#woken]) lanes.delete(lane)
  }

  /** Wakes up to WAKE_LANES waiters; all of them if nothing is running, since no later release would wake the rest. */
  wake(): Array<Lane> {
    const woken: Array<Lane> = []
    for (const waiters of [this.#returned, this.#waiting]) {
      for (const lane of waiters) {
        if (woken.length === WAKE_LANES && this.running > 0) return woken
        waiters.delete(lane)
        this.#woken.add(lane)
        woken.push(lane)
      }
    }
    return woken
  }
}

/**
 * A bulkhead: limits concurrent attempts in all, of retries, per organization and per channel. Plain and synchronous;
 * only the dispatcher uses it. The limit per destination is in its lane.
 */
export interface Slots {
  /** Whether one more attempt may start. */
  readonly hasFreeSlot: () => boolean
  readonly hasFreeRetrySlot: () => boolean
  /** Makes a lane that has nothing due but retries wait for a retry slot. */
  readonly awaitRetrySlot: (lane: Lane) => void
  /**
   * Acquires the slots of an attempt. Returns false if a limit is reached; `release` will return the lane when a slot
   * is free.
   */
  readonly acquire: (lane: Lane, delivery: QueuedDelivery) => boolean
  /** Releases the slots of a finished attempt. Returns lanes that waited for them. */
  readonly release: (lane: Lane, delivery: QueuedDelivery) => ReadonlyArray<Lane>
  /** Attempts in flight, by channel. */
  readonly inFlight: () => ReadonlyMap<string, number>
  /** Removes the lane from all waiting lists. */
  readonly cancelWaits: (lane: Lane) => void
}

/** Starts with all slots free. */
export const makeSlots = (options: SlotOptions): Slots => {
  let running = 0
  const retries = new ConcurrencyLimit()
  const organizations = new Map<string, ConcurrencyLimit>()
  const channels = new Map<string, ConcurrencyLimit>()

  return {
    hasFreeSlot: () => running < options.slots,
    hasFreeRetrySlot: () => retries.running < options.retrySlots,
    awaitRetrySlot: (lane) => retries.wait(lane),
    acquire: (lane, delivery) => {
      const organization = limitOf(organizations, lane.org_id)
      if (organization.running >= options.organizationSlots) {
        organization.wait(lane)
        return false
      }
      const channel = limitOf(channels, lane.channel.name)
      if (channel.running >= lane.channel.policy.slots) {
        channel.wait(lane)
        return false
      }
      running++
      organization.acquire(lane)
      channel.acquire(lane)
      if (isRetry(delivery)) retries.acquire(lane)
      return true
    },
    release: (lane, delivery) => {
      running--
      const organization = limitOf(organizations, lane.org_id)
      organization.running--
      const channel = limitOf(channels, lane.channel.name)
      channel.running--
      const woken = [...organization.wake(), ...channel.wake()]
      if (organization.running === 0) organizations.delete(lane.org_id)
      if (!isRetry(delivery)) return woken
      retries.running--
      return [...woken, ...retries.wake()]
    },
    inFlight: () => new Map([...channels].map(([name, limit]) => [name, limit.running])),
    cancelWaits: (lane) => {
      retries.cancel(lane)
      organizations.get(lane.org_id)?.cancel(lane)
      channels.get(lane.channel.name)?.cancel(lane)
    }
  }
}

const limitOf = (limits: Map<string, ConcurrencyLimit>, name: string): ConcurrencyLimit => {
  const found = limits.get(name)
  if (found !== undefined) return found
  const limit = new ConcurrencyLimit()
  limits.set(name, limit)
  return limit
}
