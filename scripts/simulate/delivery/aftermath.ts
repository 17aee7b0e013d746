import type { Fault, Faults } from "../core/Faults.ts"

/** The faults of deliveries. */
export type DeliveryFaults = Faults<"RejectResults">

/** For how long after a fault its consequences may last: a lease, and a renewal that was under way. */
export const AFTERMATH_MILLIS = 12_500

/** After a step of the store's clock, due times in memory and in the store differ for as long as the longest pause of a retry. */
const LATEST_RETRY_MILLIS = 45_000

/** Faults that may end a lease. A closed connection is opened again within milliseconds, and a late NOTIFY ends none. */
export const LEASE_FAULTS: ReadonlyArray<Fault["_tag"]> = [
  "Kill",
  "Freeze",
  "Suspend",
  "SilenceConnections",
  "DelayMessages",
  "LoseAnswers",
  "Partition",
  "SlowStore",
  "FreezeStore",
  "RestartStore",
  "StepStoreClock"
]

/** Since when no fault has disturbed any replica, except by lost notifications; 0 if none ever has. */
export const quietSince = (faults: DeliveryFaults): number =>
  faults.lastEnd((tag) => {
    switch (tag) {
      case "LoseNotifications":
        return Number.NEGATIVE_INFINITY
      case "StepStoreClock":
        return LATEST_RETRY_MILLIS
      default:
        return AFTERMATH_MILLIS
    }
  })
