import { useVirtualizer } from "@tanstack/react-virtual"
import { memo, useEffect, useEffectEvent, useRef } from "react"
import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import { describeProgress } from "../../../domain/approvals/Quorum.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import { findObstacle } from "../../state/findObstacle.ts"
import { useSession } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime, Countdown } from "../../ui/Time.tsx"

/** The height of a row in pixels, as in the style sheet. */ const ROW_HEIGHT = 68

/** The pending approvals as a virtualized list box: only visible rows are in the DOM, so ten thousand scroll as smoothly as ten. */
export const PendingList = ({
  approvals,
  onSelect,
  selected
}: {
  readonly approvals: ReadonlyArray<ApprovalSnapshot>
  readonly selected: ApprovalId | undefined
  readonly onSelect: (id: ApprovalId) => void
}) => {
  const scroller = useRef<HTMLDivElement>(null)
  // oxlint-disable-next-line react/incompatible-library -- nothing here memoizes by its return value
  const virtual = useVirtualizer({
    count: approvals.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
    getItemKey: (index) => approvals[index]?.approval_id ?? index
  })
  const index = approvals.findIndex(({ approval_id }) => approval_id === selected)
  const show = useEffectEvent(() => {
    if (index >= 0) virtual.scrollToIndex(index)
  })
  useEffect(() => {
    if (selected !== undefined) show()
  }, [selected])
  return (
    <div
      ref={scroller}
      className="pending-list"
      role="listbox"
      aria-label="Pending approvals, sorted by deadline"
      tabIndex={0}
      aria-activedescendant={index >= 0 ? `option-${selected}` : undefined}
    >
      <div className="pending-rows" role="presentation" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, key, start }) => {
          const approval = approvals[index]
          return approval === undefined ? null : (
            <Row
              key={key}
              approval={approval}
              selected={approval.approval_id === selected}
              onSelect={onSelect}
              start={start}
              position={index + 1}
              count={approvals.length}
            />
          )
        })}
      </div>
    </div>
  )
}

const Row = memo(function Row({
  approval,
  count,
  onSelect,
  position,
  selected,
  start
}: {
  readonly approval: ApprovalSnapshot
  readonly selected: boolean
  readonly onSelect: (id: ApprovalId) => void
  readonly start: number
  readonly position: number
  readonly count: number
}) {
  const session = useSession()
  const progress = describeProgress(approval)
  return (
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus -- the list box has the focus and the page handles the keys
    <div
      id={`option-${approval.approval_id}`}
      className="pending-row"
      role="option"
      aria-selected={selected}
      aria-setsize={count}
      aria-posinset={position}
      style={{ transform: `translateY(${start}px)` }}
      onClick={() => onSelect(approval.approval_id)}
    >
      <span className="row-main">
        <span className="row-tool">
          <UntrustedText text={approval.tool} />
        </span>
        <Countdown from={approval.requested_at} until={approval.expires_at} suffix=" left" />
      </span>
      <span className="row-more">
        <span className="row-class">
          <UntrustedText text={approval.action_class} /> · requested{" "}
          <RelativeTime time={approval.requested_at} />
        </span>
        {progress === "" ? null : <span className="row-progress">{progress}</span>}
        {findObstacle(approval, session) === "approved" ? <Badge tone="good">You approved</Badge> : null}
        {approval.stage === "admin" ? <Badge tone="note">Escalated</Badge> : null}
      </span>
    </div>
  )
})
