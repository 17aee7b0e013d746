/** What was decided, as the service lists it. */
import { Effect } from "effect"
import type { ApprovalId } from "../../domain/Ids.ts"
import { pagedAtom } from "./pagedAtom.ts"
import { apiClient } from "./apiClient.ts"

/** Every status but `pending`. */
const CLOSED_STATUSES = ["approved", "rejected", "expired"] as const

/**
 * The closed approvals before one, newest first. The service lists them by status: of each list a page is read, and what is older than
 * the end of a page that has another is left for the next one.
 */
const closedApprovalsBefore = (cursor: ApprovalId | undefined) =>
  Effect.forEach(
    CLOSED_STATUSES,
    (status) => apiClient.approvals.list({ query: cursor === undefined ? { status } : { status, cursor } }),
    { concurrency: "unbounded" }
  ).pipe(
    Effect.map((lists) => {
      const ends = lists.flatMap(({ next_cursor }) => (next_cursor === null ? [] : [next_cursor]))
      const end = ends.toSorted().at(-1)
      const approvals = lists
        .flatMap((list) => list.approvals)
        .filter(({ approval_id }) => end === undefined || approval_id >= end)
        .toSorted((left, right) => (left.approval_id < right.approval_id ? 1 : -1))
      return { approvals, next_cursor: end ?? null }
    })
  )

export const closedApprovalsAtom = pagedAtom(closedApprovalsBefore, "approvals")
