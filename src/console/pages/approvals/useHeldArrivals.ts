import { useMemo, useState } from "react"
import type { InboxApproval } from "../../../api/Console.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"

/**
 * Keeps rows in their places while its user points at one: new approvals that would be listed above others wait until they are shown or
 * `isHolding` ends. `pinned`, the open approval, is always listed. `isAppending`: new approvals can be listed after the others.
 */
export const useHeldArrivals = (
  pending: ReadonlyArray<InboxApproval>,
  {
    isAppending,
    isHolding,
    pinned
  }: {
    readonly isAppending: boolean
    readonly isHolding: boolean
    readonly pinned: ApprovalId | undefined
  }
) => {
  const [known, setKnown] = useState<ReadonlySet<ApprovalId>>(() => new Set())
  const { held, listed } = useMemo(() => {
    const lastKnown = isHolding ? pending.findLastIndex(({ approval_id }) => known.has(approval_id)) : -1
    const isHeld = ({ approval_id }: InboxApproval, index: number): boolean =>
      approval_id !== pinned && !known.has(approval_id) && (index < lastKnown || !isAppending)
    const held = lastKnown < 0 ? [] : pending.filter(isHeld)
    return {
      held,
      listed: held.length === 0 ? pending : pending.filter((approval, index) => !isHeld(approval, index))
    }
  }, [pending, known, isHolding, isAppending, pinned])
  if (listed.length !== known.size || listed.some(({ approval_id }) => !known.has(approval_id))) {
    setKnown(idsOf(listed))
  }
  return { listed, held, showHeld: () => setKnown(idsOf(pending)) }
}

const idsOf = (approvals: ReadonlyArray<InboxApproval>): ReadonlySet<ApprovalId> =>
  new Set(approvals.map(({ approval_id }) => approval_id))
