import { concurrencyLimit } from "../../../domain/delivery/Cooldown.ts"
import type { Lane } from "./Lane.ts"
import { isRetry, type QueuedDelivery } from "./QueuedDelivery.ts"
import type { Hold } from "./ReceiverRates.ts"

/** Maximum number of networks at which one lane has reservations: one for each address that an attempt tries. */
export const MAX_NETWORK_HOLDS = 4

/**
 * The attempts of a lane, and the rates that hold the next one back. Each attempt passes through these events:
 *
 * ```
 *  Started ──> Loaded ──> ReceiverReserved ──> NetworkReserved ──> Finished
 *                │                │                   │
 *                │ failed         │ not yet           │ not yet: NetworkHeld
 *                └──────> Returned <──────────────────┘
 * ```
 *
 * Times are on the monotonic clock of due times.
 */
export interface LaneState {
  /** Attempts in flight. */
  readonly inFlight: number
  /** The attempts in flight whose payload is being loaded. */
  readonly loading: number
  /** The reservation of the next attempt at the receiver's rates. */
  readonly hold: Hold | undefined
  /** Whether the receiver's rates hold the attempts back. Then one at a time is loaded, as most would be held back again. */
  readonly isThrottled: boolean
  /** The reservations of the next attempt, by network: a receiver may have addresses in several. */
  readonly networkHolds: ReadonlyMap<string, Hold>
  /** Until when the rate limit of a network holds the lane back. */
  readonly networkHeldUntil: number
  /** Whether a network's rate limit held the last attempt back. Then one attempt at a time is made. */
  readonly isNetworkThrottled: boolean
}

/** An event of one attempt of the lane. */
export type LaneEvent =
  | { readonly _tag: "Started" }
  /** `hold`: the attempt has to wait for the receiver's rates; undefined if it may go on. */
  | { readonly _tag: "ReceiverReserved"; readonly hold: Hold | undefined }
  | { readonly _tag: "Loaded" }
  /** `hold`: the attempt has to wait for the network's rate; undefined if it may go on. */
  | { readonly _tag: "NetworkReserved"; readonly network: string; readonly hold: Hold | undefined }
  /** Every address of the receiver is in a network whose rate holds the attempt back. */
  | { readonly _tag: "NetworkHeld"; readonly now: number }
  /** The attempt ended without a request, and its delivery returns to the lane. */
  | { readonly _tag: "Returned" }
  | { readonly _tag: "Finished" }

const noHolds: ReadonlyMap<string, Hold> = new Map()

/** A lane without attempts. */
export const idleLane: LaneState = {
  inFlight: 0,
  loading: 0,
  hold: undefined,
  isThrottled: false,
  networkHolds: noHolds,
  networkHeldUntil: Number.NEGATIVE_INFINITY,
  isNetworkThrottled: false
}

/** Returns the state after an event. */
export const transition = (state: LaneState, event: LaneEvent): LaneState => {
  switch (event._tag) {
    case "Started":
      return { ...state, inFlight: state.inFlight + 1, loading: state.loading + 1 }
    case "ReceiverReserved":
      return {
        ...state,
        hold: event.hold,
        isThrottled: state.hold !== undefined || event.hold !== undefined
      }
    case "Loaded":
      return { ...state, loading: state.loading - 1 }
    case "NetworkReserved":
      return reserveNetwork(state, event.network, event.hold)
    case "NetworkHeld":
      // The attempt's turn at the receiver is not used yet.
      return {
        ...state,
        isNetworkThrottled: true,
        hold: state.hold ?? { until: event.now, reserved: "both" }
      }
    case "Returned":
      return { ...state, inFlight: state.inFlight - 1 }
    case "Finished":
      return { ...state, inFlight: state.inFlight - 1, isNetworkThrottled: false }
  }
}

const reserveNetwork = (state: LaneState, network: string, hold: Hold | undefined): LaneState => {
  if (hold === undefined && !state.networkHolds.has(network)) return state
  const networkHolds = new Map(state.networkHolds)
  networkHolds.delete(network)
  if (hold === undefined) return { ...state, networkHolds }
  networkHolds.set(network, hold)
  const [oldest] = networkHolds.keys()
  if (networkHolds.size > MAX_NETWORK_HOLDS && oldest !== undefined) networkHolds.delete(oldest)
  return { ...state, networkHolds, networkHeldUntil: hold.until }
}

/** The next thing that a lane does. */
export type LaneStep =
  | { readonly _tag: "Start"; readonly delivery: QueuedDelivery }
  /** The delivery is past its `expiresAt` and is not sent. */
  | { readonly _tag: "Expire"; readonly delivery: QueuedDelivery }
  /** Nothing is due before `until`; a lane with a distant time may be dropped. */
  | { readonly _tag: "Park"; readonly until: number }
  /** A rate holds the lane back until then. */
  | { readonly _tag: "Wait"; readonly until: number }
  /** An attempt in flight has to load or finish first. */
  | { readonly _tag: "AwaitAttempt" }
  /** Only retries are due, and all retry slots are in use. */
  | { readonly _tag: "AwaitRetrySlot" }
  | { readonly _tag: "Empty" }

const awaitAttempt: LaneStep = { _tag: "AwaitAttempt" }
const awaitRetrySlot: LaneStep = { _tag: "AwaitRetrySlot" }
const empty: LaneStep = { _tag: "Empty" }

/** The next thing that a lane does at `now`; `hasRetrySlot` is whether a retry may start. */
export const nextStep = (
  { channel, health, state, waiting }: Pick<Lane, "channel" | "health" | "state" | "waiting">,
  hasRetrySlot: boolean,
  now: number
): LaneStep => {
  const overdue = firstDue(
    waiting,
    now,
    (delivery) => delivery.expiresAt < now && (isRetry(delivery) || health._tag !== "Healthy")
  )
  // Attempts to a failing destination are made one at a time, so trying expired deliveries would make those behind them
  // expire as well.
  if (overdue !== undefined) return { _tag: "Expire", delivery: overdue }
  if (state.inFlight >= concurrencyLimit(health, channel.policy.concurrency))
    return health._tag === "CoolingDown" ? { _tag: "Park", until: health.until } : awaitAttempt
  if (state.hold !== undefined && state.hold.until > now) return { _tag: "Wait", until: state.hold.until }
  if (state.networkHeldUntil > now) return { _tag: "Wait", until: state.networkHeldUntil }
  if ((state.isThrottled && state.loading > 0) || (state.isNetworkThrottled && state.inFlight > 0))
    return awaitAttempt
  const head = waiting[0]
  if (head === undefined) return empty
  if (head.dueAt > now) return { _tag: "Park", until: head.dueAt }
  const delivery = firstDue(waiting, now, (one) => hasRetrySlot || !isRetry(one))
  return delivery === undefined ? awaitRetrySlot : { _tag: "Start", delivery }
}

/** Returns the first due delivery that matches. */
const firstDue = (
  waiting: ReadonlyArray<QueuedDelivery>,
  now: number,
  matches: (delivery: QueuedDelivery) => boolean
): QueuedDelivery | undefined => {
  for (const delivery of waiting) {
    if (delivery.dueAt > now) return undefined
    if (matches(delivery)) return delivery
  }
  return undefined
}
