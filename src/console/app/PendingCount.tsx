import { useAtomValue } from "../state/atoms.ts"
import { inboxAtom } from "../state/inbox.ts"

/** How many approvals wait, beside the page's name. */
export const PendingCount = () => {
  const { pending } = useAtomValue(inboxAtom)
  return pending.length === 0 ? null : (
    <span className="nav-badge">
      {pending.length > 999 ? "999+" : pending.length}
      <span className="visually-hidden"> waiting</span>
    </span>
  )
}
