import { MAX_DECISIONS } from "../../../../api/DecisionBatch.ts"
import type { InboxApproval } from "../../../../api/Console.ts"
import type { ApprovalSnapshot } from "../../../../api/SessionStream.ts"
import type { ApprovalId } from "../../../../domain/Ids.ts"
import type { InboxState } from "../../../state/inbox.ts"
import { type SelectedRows, useSelection } from "../../../ui/selection/useSelection.ts"

/** An approval that ended while it was selected; `approval` is undefined if the page missed how. */
export interface EndedApproval {
  readonly id: ApprovalId
  readonly approval: ApprovalSnapshot | undefined
}

export interface SelectedApprovals extends SelectedRows<ApprovalId> {
  /** The selected approvals that are pending, sorted by deadline. */
  readonly pending: ReadonlyArray<InboxApproval>
  /** The approvals that ended meanwhile, until they are removed. */
  readonly ended: ReadonlyArray<EndedApproval>
}

/**
 * The approvals of the inbox that are selected for one decision, at most as many as a request decides. `listed`: the approvals that the filter lists,
 * in their order. The selection begins empty whenever the filter changes, so that hidden approvals are never decided.
 */
export const useSelectedApprovals = (
  inbox: InboxState,
  listed: ReadonlyArray<ApprovalId>,
  filter: string
): SelectedApprovals => {
  const rows = useSelection({ list: listed, max: MAX_DECISIONS, noun: "approvals", scope: filter })
  const { ids } = rows
  const pending = ids.size === 0 ? [] : inbox.pending.filter(({ approval_id }) => ids.has(approval_id))
  const pendingIds = new Set(pending.map(({ approval_id }) => approval_id))
  const ended = [...ids].filter((id) => !pendingIds.has(id))
  return {
    ...rows,
    pending,
    ended: ended.map((id) => ({ id, approval: inbox.closed.get(id) }))
  }
}
