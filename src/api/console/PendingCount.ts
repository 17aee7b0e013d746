import { Schema } from "effect"

/** The limit of the count of pending approvals. Badges show a higher count as "99+". */
export const MAX_PENDING_COUNT = 99

/** How many pending approvals the signed-in key can approve now, for badges. */
export const PendingCount = Schema.Struct({
  /** At most `MAX_PENDING_COUNT`. */
  count: Schema.Int,
  /** Whether there may be more than `count`. */
  more: Schema.Boolean
}).annotate({ identifier: "PendingCount" })
export type PendingCount = typeof PendingCount.Type
