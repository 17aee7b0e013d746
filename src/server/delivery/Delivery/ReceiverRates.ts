import { type RateLimit, rateLimit, reserveToken } from "../../../domain/identity/RateLimit.ts"
import type { OrgId } from "../../../domain/Ids.ts"

/** Attempts per second to one receiver, each plus a burst of the same size; 0 is no limit. */
export interface ReceiverRateOptions {
  /** From all destinations of one organization. */
  readonly perOrganization: number
  /** From all organizations. */
  readonly total: number
}

/**
 * Why a lane waits for its receiver's rates: it starts nothing before `until`, on the monotonic clock. `reserved` is what its next
 * attempt then has: its turn within the organization's rate, or within both rates.
 */
export interface Hold {
  readonly until: number
  readonly reserved: "nothing" | "organization" | "both"
}

/** Reserves an attempt to a receiver. Undefined: it may start now. `before` is a hold that has ended. */
export type ReserveAttempt = (org_id: OrgId, receiver: string, now: number, before?: Hold) => Hold | undefined

/** The rates of all receivers of one kind. */
export interface ReceiverRates {
  readonly reserve: ReserveAttempt
  /** Counts an attempt that cannot wait, and returns whether it may start now. */
  readonly tryTake: (org_id: OrgId, receiver: string, now: number) => boolean
}

/**
 * The furthest reservation, in milliseconds. Without this limit a receiver's queue of reservations would be as long as the number of its
 * destinations allows. With the default rates it takes 60,000 destinations to reach it.
 */
export const MAX_RESERVATION_MILLIS = 60_000

/** Above this number of buckets, full ones are removed. */
const SWEEP_ABOVE = 1_000

/** The shortest time between two such removals, in milliseconds. */
const SWEEP_MILLIS = 1_000

/**
 * Bounds attempts per second to each receiver (a host, or a network), which many destinations may share: without it,
 * one event for fifty endpoints of one host is fifty requests at once. A destination reserves one attempt at a time, so
 * the destinations of one receiver take turns. Counted by each replica, for the destinations that it owns.
 */
export const makeReceiverRates = ({ perOrganization, total }: ReceiverRateOptions): ReceiverRates => {
  const ofOrganizations = makeBuckets(perOrganization)
  const ofAll = makeBuckets(total)
  const reserve: ReserveAttempt = (org_id, receiver, now, before) => {
    const reserved = before?.reserved ?? "nothing"
    if (reserved === "nothing") {
      const waitMillis = ofOrganizations(`${org_id} ${receiver}`, now)
      if (waitMillis === undefined) return { until: now + MAX_RESERVATION_MILLIS, reserved }
      if (waitMillis > 0) return { until: now + waitMillis, reserved: "organization" }
    }
    if (reserved === "both") return undefined
    // Only now, so that a turn within the total rate is used when it comes.
    const waitMillis = ofAll(receiver, now)
    if (waitMillis === undefined) return { until: now + MAX_RESERVATION_MILLIS, reserved: "organization" }
    return waitMillis === 0 ? undefined : { until: now + waitMillis, reserved: "both" }
  }
  return {
    reserve,
    tryTake: (org_id, receiver, now) =>
      ofOrganizations(`${org_id} ${receiver}`, now, 0) === 0 && ofAll(receiver, now, 0) === 0
  }
}

/**
 * Takes the next token of a bucket and returns the wait for it. Undefined: the wait is longer than `maxWaitMillis`, and nothing is taken.
 */
type TakeToken = (name: string, now: number, maxWaitMillis?: number) => number | undefined

/** Token buckets by name; one that is not stored is full. */
const makeBuckets = (perSecond: number): TakeToken => {
  if (perSecond === 0) return () => 0
  const limit: RateLimit = rateLimit(perSecond)
  const buckets = new Map<string, number>()
  let sweptAt = Number.NEGATIVE_INFINITY
  return (name, now, maxWaitMillis = MAX_RESERVATION_MILLIS) => {
    const { fullAt, waitMillis } = reserveToken(limit, buckets.get(name) ?? now, now)
    if (waitMillis > maxWaitMillis) return undefined
    buckets.set(name, fullAt)
    if (buckets.size > SWEEP_ABOVE && now - sweptAt >= SWEEP_MILLIS) {
      sweptAt = now
      for (const [other, at] of buckets) if (at <= now) buckets.delete(other)
    }
    return waitMillis
  }
}
