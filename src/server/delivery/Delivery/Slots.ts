import { isRetry, type Item } from "./QueuedDelivery.ts"
import type { Lane } from "./Lane.ts"

/** How much may be under way at once in one process. */
export interface SlotOptions {
  /** Attempts in all. */
  readonly slots: number
  /** Of them retries at most: the rest is kept for first attempts. */
  readonly retrySlots: number
  /** Of them those of one organization at most. */
  readonly organizationSlots: number
}

/**
 * An attempt that waits for its peer costs a socket and what it sends, so there are many: receivers that take seconds over each request,
 * eight at a time, fill them only where there are a hundred of them. No organization takes more than a sixteenth, and of a channel's 768
 * a quarter is kept for first attempts.
 */
export const defaultSlots: SlotOptions = { slots: 1_024, retrySlots: 576, organizationSlots: 64 }

/** Lanes that are waiting for a slot and are looked at when one comes free. */
const WAKE_LANES = 4

/** Attempts of one kind that are under way, and the lanes that wait for one of them to end. */
class Room {
  running = 0
  readonly waiting = new Set<Lane>()

  /** Some of those that wait, who wait no longer; all of them where nothing is under way that would call the next. */
  wake(): Array<Lane> {
    const woken: Array<Lane> = []
    for (const lane of this.waiting) {
      if (woken.length === WAKE_LANES && this.running > 0) break
      this.waiting.delete(lane)
      woken.push(lane)
    }
    return woken
  }
}

/**
 * The caps over the attempts under way: of all, of retries, of each organization, of each channel. Plain and synchronous: only the
 * dispatcher touches it. The cap of a destination is its lane's.
 */
export interface Slots {
  /** Whether one more may be under way. */
  readonly anyFree: () => boolean
  readonly retriesFree: () => boolean
  /** The lane has nothing due but retries, and waits for a slot of theirs. */
  readonly awaitRetry: (lane: Lane) => void
  /** Takes the slots of an attempt. False: there are none, and `free` will name the lane. */
  readonly take: (lane: Lane, item: Item) => boolean
  /** An attempt has ended. Answers with lanes that waited for its slots. */
  readonly free: (lane: Lane, item: Item) => ReadonlyArray<Lane>
  /** Attempts under way, by channel. */
  readonly running: () => ReadonlyMap<string, number>
  /** The lane waits for nothing any more. */
  readonly forget: (lane: Lane) => void
}

/** Slots of which none is taken. */
export const makeSlots = (options: SlotOptions): Slots => {
  let running = 0
  const retries = new Room()
  const organizations = new Map<string, Room>()
  const channels = new Map<string, Room>()

  return {
    anyFree: () => running < options.slots,
    retriesFree: () => retries.running < options.retrySlots,
    awaitRetry: (lane) => void retries.waiting.add(lane),
    take: (lane, item) => {
      const organization = roomOf(organizations, lane.org_id)
      if (organization.running >= options.organizationSlots) {
        organization.waiting.add(lane)
        return false
      }
      const channel = roomOf(channels, lane.channel.name)
      if (channel.running >= lane.channel.policy.slots) {
        channel.waiting.add(lane)
        return false
      }
      running++
      organization.running++
      channel.running++
      if (isRetry(item)) retries.running++
      return true
    },
    free: (lane, item) => {
      running--
      const organization = roomOf(organizations, lane.org_id)
      organization.running--
      const channel = roomOf(channels, lane.channel.name)
      channel.running--
      const woken = [...organization.wake(), ...channel.wake()]
      if (organization.running === 0) organizations.delete(lane.org_id)
      if (!isRetry(item)) return woken
      retries.running--
      return [...woken, ...retries.wake()]
    },
    running: () => new Map([...channels].map(([name, room]) => [name, room.running])),
    forget: (lane) => {
      retries.waiting.delete(lane)
      organizations.get(lane.org_id)?.waiting.delete(lane)
      channels.get(lane.channel.name)?.waiting.delete(lane)
    }
  }
}

const roomOf = (rooms: Map<string, Room>, name: string): Room => {
  const found = rooms.get(name)
  if (found !== undefined) return found
  const made = new Room()
  rooms.set(name, made)
  return made
}
