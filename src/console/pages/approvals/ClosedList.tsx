import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { closedApprovalsAtom } from "../../state/closedApprovals.ts"
import { inboxAtom } from "../../state/inbox.ts"
import { PagedList } from "../../ui/PagedList.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { ApprovalStatusBadge } from "./ApprovalStatusBadge.tsx"

/** Newest first: approval ids sort by creation time. */ const newestFirst = (
  left: ApprovalSnapshot,
  right: ApprovalSnapshot
): number => (left.approval_id < right.approval_id ? 1 : -1)

/** Closed approvals, newest first, each with its outcome and who decided. */
export default function ClosedList({
  onSelect,
  selected
}: {
  readonly selected: ApprovalId | undefined
  readonly onSelect: (id: ApprovalId) => void
}) {
  const { closed } = useAtomValue(inboxAtom)
  return (
    <div className="decided-list">
      <PagedList atom={closedApprovalsAtom}>
        {(listed) => {
          const shown = [
            ...new Map([...listed, ...closed.values()].map((one) => [one.approval_id, one])).values()
          ].toSorted(newestFirst)
          return shown.length === 0 ? (
            <EmptyState title="No closed approvals" />
          ) : (
            <ul>
              {shown.map((approval) => (
                <li key={approval.approval_id}>
                  <button
                    type="button"
                    className="decided-row"
                    aria-current={approval.approval_id === selected ? "true" : undefined}
                    onClick={() => onSelect(approval.approval_id)}
                  >
                    <span className="row-main">
                      <span className="row-tool">
                        <UntrustedText text={approval.tool} />
                      </span>
                      <ApprovalStatusBadge approval={approval} />
                    </span>
                    <span className="row-more">
                      {approval.decided_by === null ? (
                        "no decision"
                      ) : (
                        <>
                          by <UntrustedText text={approval.decided_by.name} />
                        </>
                      )}{" "}
                      · <RelativeTime time={approval.decided_at} />
                    </span>
                  </button>
                </li>
              ))}
            </ul>
          )
        }}
      </PagedList>
    </div>
  )
}
