import { DateTime } from "effect"
import { nextTransitionAt } from "../../../domain/approvals/ApprovalState.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { type ApprovalKey, type ApprovalRow, stateOf } from "../approvalRows.ts"

/** Approvals that one replica caches. An entry takes some 2 KB beside its arguments. */
const MAX_APPROVALS = 2_000

/** Characters of arguments in all of them together. */
const MAX_TEXT = 2 * 1024 * 1024

/** The weight of an entry without arguments. */
const ENTRY_WEIGHT = 500

/**
 * Pending approvals that this replica has just requested, so that a decision does not read them first. An entry may be stale: the statement
 * that writes a decision checks that the approval is still in the state from which the decision was computed.
 */
export const makePendingApprovals = () => {
  const cache = new LruCache<ApprovalRow>({ entries: MAX_APPROVALS, weight: MAX_TEXT })
  return {
    /** Caches an approval whose request has been committed. */
    add: (row: ApprovalRow): void =>
      cache.set(keyOf(row), row, ENTRY_WEIGHT + (row.arguments === null ? 0 : row.arguments.length)),
    /** The cached approval, unless its first transition by time was due: then its row has probably changed. */
    find: (key: ApprovalKey, now: Timestamp): ApprovalRow | undefined => {
      const row = cache.get(keyOf(key))
      if (row === undefined) return undefined
      const dueAt = nextTransitionAt(stateOf(row))
      if (dueAt !== null && DateTime.isGreaterThan(dueAt, now)) return row
      cache.delete(keyOf(key))
      return undefined
    },
    remove: (key: ApprovalKey): void => void cache.delete(keyOf(key))
  }
}

const keyOf = ({ approval_id, org_id }: ApprovalKey): string => `${org_id} ${approval_id}`
