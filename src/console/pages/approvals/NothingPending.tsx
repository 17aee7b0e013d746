import { AsyncResult } from "effect/reactivity"
import { useAtomValue } from "../../state/atoms.ts"
import { closedPagesAtom } from "../../state/closedApprovals.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"

/** The list without pending approvals: with the first steps, unless approvals were decided before. */
export default function NothingPending() {
  const closed = useAtomValue(closedPagesAtom(""))
  const isNew =
    AsyncResult.isSuccess(closed) &&
    closed.value.items.every(({ items }) => items.every(({ approvals }) => approvals.length === 0))
  return isNew ? (
    <FirstRecord of={({ firstApproval }, origin) => firstApproval(origin)} />
  ) : (
    <EmptyState title="No pending approvals">
      Steps that require approval appear here automatically.
    </EmptyState>
  )
}
