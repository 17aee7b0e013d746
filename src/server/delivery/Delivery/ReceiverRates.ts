import { rateLimit } from "../../../domain/identity/RateLimit.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { makeTokenBuckets, type TokenBuckets } from "../../admission/TokenBuckets.ts"

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

/**
 * Bounds attempts per second to each receiver (a host, or a network), which many destinations may share: without it,
 * one event for fifty endpoints of one host is fifty requests at once. A destination reserves one attempt at a time, so
 * the destinations of one receiver take turns. Counted by each replica, for the destinations that it owns.
 */
export const makeReceiverRates = ({ perOrganization, total }: ReceiverRateOptions): ReceiverRates => {
  const ofOrganizations = makeRate(perOrganization)
  const ofAll = makeRate(total)
  const reserve: ReserveAttempt = (org_id, receiver, now, before) => {
    const reserved = before?.reserved ?? "nothing"
    if (reserved === "nothing") {
      const waitMillis = ofOrganizations.reserve(`${org_id} ${receiver}`, now, MAX_RESERVATION_MILLIS)
      if (waitMillis === undefined) return { until: now + MAX_RESERVATION_MILLIS, reserved }
      if (waitMillis > 0) return { until: now + waitMillis, reserved: "organization" }
    }
    if (reserved === "both") return undefined
    // Only now, so that a turn within the total rate is used when it comes.
    const waitMillis = ofAll.reserve(receiver, now, MAX_RESERVATION_MILLIS)
    if (waitMillis === undefined) return { until: now + MAX_RESERVATION_MILLIS, reserved: "organization" }
    return waitMillis === 0 ? undefined : { until: now + waitMillis, reserved: "both" }
  }
  return {
    reserve,
    tryTake: (org_id, receiver, now) =>
      ofOrganizations.reserve(`${org_id} ${receiver}`, now, 0) === 0 && ofAll.reserve(receiver, now, 0) === 0
  }
}

/** The buckets of a rate; 0 is no limit. */
const makeRate = (perSecond: number): Pick<TokenBuckets, "reserve"> =>
  perSecond === 0 ? { reserve: () => 0 } : makeTokenBuckets(rateLimit(perSecond))
