/** Closed approvals: approved, rejected and expired ones in one list. */
import { Effect } from "effect"
import type { ApprovalId } from "../../domain/Ids.ts"
import { pagedAtom } from "./pagedAtom.ts"
import { apiClient } from "./apiClient.ts"

/** Every status but `pending`. */
const CLOSED_STATUSES = ["approved", "rejected", "expired"] as const

/**
 * One page of closed approvals before a cursor, newest first. The API lists one status at a time, so this reads a page of each status
 * and merges them. Approvals older than the end of any incomplete list are left for the next page, which keeps the order exact.
 */
const closedApprovalsBefore = (cursor: ApprovalId | undefined) =>
  Effect.forEach(
    CLOSED_STATUSES,
    (status) => apiClient.approvals.list({ query: cursor === undefined ? { status } : { status, cursor } }),
    { concurrency: "unbounded" }
  ).pipe(
    Effect.map((lists) => {
      const cursors = lists.flatMap(({ next_cursor }) => (next_cursor === null ? [] : [next_cursor]))
      const end = cursors.toSorted().at(-1)
      const approvals = lists
        .flatMap((list) => list.approvals)
        .filter(({ approval_id }) => end === undefined || approval_id >= end)
        .toSorted((left, right) => (left.approval_id < right.approval_id ? 1 : -1))
      return { approvals, next_cursor: end ?? null }
    })
  )

export const closedApprovalsAtom = pagedAtom(closedApprovalsBefore, "approvals")
