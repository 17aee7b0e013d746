import { useState } from "react"
import { MAX_DECISIONS } from "../../../../api/DecisionBatch.ts"
import type { ApprovalSnapshot } from "../../../../api/SessionStream.ts"
import type { ApprovalId } from "../../../../domain/Ids.ts"
import type { InboxState } from "../../../state/inbox.ts"
import { showToast } from "../../../ui/Toasts.tsx"
import { deselect, emptySelection, extendTo, type Selection, toggle } from "./Selection.ts"

/** An approval that ended while it was selected; `approval` is undefined if the page missed how. */
export interface EndedApproval {
  readonly id: ApprovalId
  readonly approval: ApprovalSnapshot | undefined
}

export interface SelectedApprovals {
  readonly ids: ReadonlySet<ApprovalId>
  /** The selected approvals that are pending, sorted by deadline. */
  readonly pending: ReadonlyArray<ApprovalSnapshot>
  /** Those that ended meanwhile, until they are removed. */
  readonly ended: ReadonlyArray<EndedApproval>
  readonly toggle: (id: ApprovalId) => void
  /** Selects from `start`, by default the approval that was selected last, to this one. */
  readonly extendTo: (id: ApprovalId, start?: ApprovalId) => void
  readonly remove: (ids: Iterable<ApprovalId>) => void
  readonly clear: () => void
}

/** The approvals of the inbox that are selected for one decision. */
export const useSelection = (inbox: InboxState): SelectedApprovals => {
  const [selection, setSelection] = useState<Selection>(emptySelection)
  const { ids } = selection
  const pending = ids.size === 0 ? [] : inbox.pending.filter(({ approval_id }) => ids.has(approval_id))
  const pendingIds = new Set(pending.map(({ approval_id }) => approval_id))
  const change = (next: Selection, wanted: ApprovalId) => {
    setSelection(next)
    if (next.ids.size >= MAX_DECISIONS && !next.ids.has(wanted) && !ids.has(wanted)) {
      showToast(`At most ${MAX_DECISIONS} approvals can be decided together.`)
    }
  }
  return {
    ids,
    pending,
    ended: [...ids].filter((id) => !pendingIds.has(id)).map((id) => ({ id, approval: inbox.closed.get(id) })),
    toggle: (id) => change(toggle(selection, id), id),
    extendTo: (id, start) => {
      const list = inbox.pending.map(({ approval_id }) => approval_id)
      change(extendTo(selection, list, id, start), id)
    },
    remove: (removed) => {
      const gone = new Set(removed)
      setSelection((current) => deselect(current, gone))
    },
    clear: () => setSelection(emptySelection)
  }
}
