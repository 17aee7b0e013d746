import { MAX_PENDING_COUNT, type PendingCount as Count } from "../../api/console/PendingCount.ts"
import { useAtomValue } from "../state/atoms.ts"
import { pendingCountAtom } from "../state/inboxStream.ts"

/** The number of pending approvals that the signed-in key can approve, shown beside the Approvals link. */
export const PendingCount = () => {
  const text = describeCount(useAtomValue(pendingCountAtom))
  return text === "" ? null : (
    <span className="nav-badge">
      {text}
      <span className="visually-hidden"> pending</span>
    </span>
  )
}

/** The count as a badge says it: `3`, `99+`, or nothing. */
export const describeCount = (count: Count | undefined): string =>
  count === undefined || (count.count === 0 && !count.more)
    ? ""
    : `${Math.min(count.count, MAX_PENDING_COUNT)}${count.more ? "+" : ""}`
