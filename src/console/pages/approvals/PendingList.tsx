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
  marked,
  onExtend,
  onMark,
  onSelect,
  selected
}: {
  readonly approvals: ReadonlyArray<ApprovalSnapshot>
  /** The approval that is open. */
  readonly selected: ApprovalId | undefined
  /** The approvals that are selected for one decision. */
  readonly marked: ReadonlySet<ApprovalId>
  readonly onSelect: (id: ApprovalId) => void
  readonly onMark: (id: ApprovalId) => void
  readonly onExtend: (id: ApprovalId) => void
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
  const rows = virtual.getVirtualItems()
  return (
    <div
      ref={scroller}
      className="pending-list"
      role="listbox"
      aria-label="Pending approvals, sorted by deadline"
      tabIndex={0}
      aria-multiselectable="true"
      aria-activedescendant={rows.some((row) => row.index === index) ? `option-${selected}` : undefined}
    >
      <div className="pending-rows" role="presentation" style={{ height: virtual.getTotalSize() }}>
        {rows.map(({ index, key, start }) => {
          const approval = approvals[index]
          return approval === undefined ? null : (
            <Row
              key={key}
              approval={approval}
              selected={approval.approval_id === selected}
              marked={marked.has(approval.approval_id)}
              onSelect={onSelect}
              onMark={onMark}
              onExtend={onExtend}
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
  marked,
  onExtend,
  onMark,
  onSelect,
  position,
  selected,
  start
}: {
  readonly approval: ApprovalSnapshot
  readonly selected: boolean
  readonly marked: boolean
  readonly onSelect: (id: ApprovalId) => void
  readonly onMark: (id: ApprovalId) => void
  readonly onExtend: (id: ApprovalId) => void
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
      aria-selected={marked}
      aria-current={selected ? "true" : undefined}
      aria-setsize={count}
      aria-posinset={position}
      style={{ transform: `translateY(${start}px)` }}
      // Without this, a click with Shift selects the text between two rows.
      onMouseDown={(event) => {
        if (event.shiftKey) event.preventDefault()
      }}
      onClick={(event) => (event.shiftKey ? onExtend : onSelect)(approval.approval_id)}
    >
      {/* Not a form control: an option cannot contain one. The page handles the key for it. */}
      <span
        className="row-check"
        aria-hidden="true"
        title="Select for one decision (x)"
        onClick={(event) => {
          event.stopPropagation()
          ;(event.shiftKey ? onExtend : onMark)(approval.approval_id)
        }}
      >
        {marked ? "✓" : ""}
      </span>
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
