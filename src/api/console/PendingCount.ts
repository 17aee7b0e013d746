import { Schema } from "effect"

/** The limit of the count of pending approvals. Badges show a higher count as "99+". */
export const MAX_PENDING_COUNT = 99

/** How many pending approvals the signed-in key can approve now, and unknown executions it can resolve, for badges. */
export const PendingCount = Schema.Struct({
  /** At most `MAX_PENDING_COUNT`. */
  count: Schema.Int,
  /** Whether there may be more than `count`. */
  more: Schema.Boolean,
  /** Executions whose outcome is unknown, counted up to `MAX_PENDING_COUNT` + 1. Zero for a key that cannot decide. */
  unknown_executions: Schema.Int
}).annotate({ identifier: "PendingCount" })
export type PendingCount = typeof PendingCount.Type
