import { useAtomValue } from "../state/atoms.ts"
import { inboxAtom } from "../state/inbox.ts"

/** The number of pending approvals, shown beside the Approvals link. */
export const PendingCount = () => {
  const { pending } = useAtomValue(inboxAtom)
  return pending.length === 0 ? null : (
    <span className="nav-badge">
      {pending.length > 999 ? "999+" : pending.length}
      <span className="visually-hidden"> pending</span>
    </span>
  )
}
