import { Schema } from "effect"

/** The largest number that the count of pending approvals tells. A badge shows more as "99+". */
export const MAX_PENDING_COUNT = 99

/** How many pending approvals the signed-in key can approve now, for badges. */
export const PendingCount = Schema.Struct({
  /** At most `MAX_PENDING_COUNT`. */
  count: Schema.Int,
  /** Whether there may be more than `count`. */
  more: Schema.Boolean
}).annotate({ identifier: "PendingCount" })
export type PendingCount = typeof PendingCount.Type
