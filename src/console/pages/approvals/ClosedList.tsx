import { DateTime } from "effect"
import type { InboxApproval } from "../../../api/Console.ts"
import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import type { Approval } from "../../../domain/approvals/Approval.ts"
import { tellingArguments } from "../../../domain/approvals/tellingArguments.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { closedApprovalsAtom } from "../../state/closedApprovals.ts"
import { inboxAtom } from "../../state/inbox.ts"
import { PagedList } from "../../ui/PagedList.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { useKeyboardShortcuts } from "../../ui/useKeyboardShortcuts.ts"
import { ApprovalLine } from "./ApprovalLine.tsx"
import { ApprovalStatusBadge } from "./ApprovalStatusBadge.tsx"

/** What is said of an approval from the API, which has arguments, or from the stream, which has a line. */
const lineOf = (approval: Approval | InboxApproval) =>
  "rule_summary" in approval
    ? {
        rule_summary: approval.rule_summary,
        agent_summary: approval.agent_summary,
        arguments: tellingArguments(approval.arguments)
      }
    : approval.line

const closedAt = ({ decided_at, requested_at }: ApprovalSnapshot): number =>
  DateTime.toEpochMillis(decided_at ?? requested_at)

/** Last closed first. */
const lastClosedFirst = (left: ApprovalSnapshot, right: ApprovalSnapshot): number =>
  closedAt(right) - closedAt(left) || (left.approval_id < right.approval_id ? 1 : -1)

/** Closed approvals, last closed first, each with its outcome and who decided. */
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
          ].toSorted(lastClosedFirst)
          return shown.length === 0 ? (
            <EmptyState title="No closed approvals" />
          ) : (
            <ul>
              <MoveKeys approvals={shown} selected={selected} onSelect={onSelect} />
              {shown.map((approval) => (
                <li key={approval.approval_id}>
                  <button
                    type="button"
                    className="decided-row"
                    aria-current={approval.approval_id === selected ? "true" : undefined}
                    onClick={() => onSelect(approval.approval_id)}
                  >
                    <span className="row-main">
                      <ApprovalLine tool={approval.tool} line={lineOf(approval)} />
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

/** The keys that open the next and the previous closed approval. */
const MoveKeys = ({
  approvals,
  onSelect,
  selected
}: {
  readonly approvals: ReadonlyArray<ApprovalSnapshot>
  readonly selected: ApprovalId | undefined
  readonly onSelect: (id: ApprovalId) => void
}) => {
  const index = approvals.findIndex(({ approval_id }) => approval_id === selected)
  const move = (by: number) => {
    const next = approvals[Math.min(Math.max(index < 0 ? 0 : index + by, 0), approvals.length - 1)]
    if (next !== undefined) onSelect(next.approval_id)
  }
  useKeyboardShortcuts({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1)
  })
  return null
}
