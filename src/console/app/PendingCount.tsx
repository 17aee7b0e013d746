import { findObstacle } from "../state/findObstacle.ts"
import { useAtomValue } from "../state/atoms.ts"
import { inboxAtom } from "../state/inbox.ts"
import { useSession } from "../state/session.ts"

/** The number of pending approvals that the signed-in key can decide, shown beside the Approvals link. */
export const PendingCount = () => {
  const session = useSession()
  const { pending } = useAtomValue(inboxAtom)
  const count = pending.filter((approval) => findObstacle(approval, session) === undefined).length
  return count === 0 ? null : (
    <span className="nav-badge">
      {count > 999 ? "999+" : count}
      <span className="visually-hidden"> pending</span>
    </span>
  )
}
