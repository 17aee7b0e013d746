import { MAX_DECISIONS } from "../../../../api/DecisionBatch.ts"
import type { ApprovalId } from "../../../../domain/Ids.ts"

/** The approvals that are selected for one decision, at most as many as a request decides. */
export interface Selection {
  readonly ids: ReadonlySet<ApprovalId>
  /** The approval that was selected last: ranges begin at it. */
  readonly anchor: ApprovalId | undefined
}

export const emptySelection: Selection = { ids: new Set(), anchor: undefined }

/** Selects an approval, or deselects it. A full selection stays as it is. */
export const toggle = ({ ids }: Selection, id: ApprovalId): Selection => {
  if (ids.has(id)) return { ids: new Set([...ids].filter((one) => one !== id)), anchor: id }
  return { ids: ids.size < MAX_DECISIONS ? new Set([...ids, id]) : ids, anchor: id }
}

/**
 * Selects the range of the list from `start`, by default the anchor, to an approval, in that direction until the selection is full. If that is
 * not in the list, only the approval.
 */
export const extendTo = (
  { anchor, ids }: Selection,
  list: ReadonlyArray<ApprovalId>,
  id: ApprovalId,
  start?: ApprovalId
): Selection => {
  const to = list.indexOf(id)
  if (to < 0) return { ids, anchor }
  const begin = start ?? anchor
  const beginAt = begin === undefined ? -1 : list.indexOf(begin)
  const from = beginAt < 0 ? to : beginAt
  const range = from <= to ? list.slice(from, to + 1) : list.slice(to, from + 1).toReversed()
  return { ids: new Set([...new Set([...ids, ...range])].slice(0, MAX_DECISIONS)), anchor: list[from] }
}

/** Deselects approvals. */
export const deselect = ({ anchor, ids }: Selection, removed: ReadonlySet<ApprovalId>): Selection => ({
  ids: new Set([...ids].filter((id) => !removed.has(id))),
  anchor
})
