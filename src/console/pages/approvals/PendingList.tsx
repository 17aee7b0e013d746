import { useVirtualizer } from "@tanstack/react-virtual"
import { Fragment, memo, type ReactNode, useEffect, useEffectEvent, useMemo, useRef } from "react"
import type { InboxApproval } from "../../../api/Console.ts"
import { describeProgress } from "../../../domain/approvals/Quorum.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import { openInNewTab } from "../../app/router.tsx"
import { findObstacle } from "../../state/findObstacle.ts"
import { useSession } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime, Countdown } from "../../ui/Time.tsx"
import { ApprovalLine } from "./ApprovalLine.tsx"
import { type ApprovalGroup, type InboxColumn, summaryAmount } from "./filterApprovals.ts"

/** The height of a row, and of the heading of a group, in pixels, as in the style sheet. */
const ROW_HEIGHT = 68
const HEADING_HEIGHT = 34

type Item =
  | { readonly heading: ApprovalGroup }
  | { readonly heading: undefined; readonly approval: InboxApproval; readonly position: number }

/** The rows of the list, with headings if there are groups. */
const toItems = (groups: ReadonlyArray<ApprovalGroup>): ReadonlyArray<Item> => {
  let position = 0
  return groups.flatMap((group) => [
    ...(group.name === "" ? [] : [{ heading: group }]),
    ...group.approvals.map((approval) => ({ heading: undefined, approval, position: ++position }))
  ])
}

/** The pending approvals as a virtualized list box: only visible rows are in the DOM, so ten thousand scroll as smoothly as ten. */
export const PendingList = ({
  columns,
  groups,
  marked,
  onExtend,
  onMark,
  onSelect,
  order,
  selected
}: {
  /** The facts that each row shows. */
  readonly columns: ReadonlyArray<InboxColumn>
  /** The list's order in a word, for screen readers. */
  readonly order: string
  readonly groups: ReadonlyArray<ApprovalGroup>
  /** The approval that is open. */
  readonly selected: ApprovalId | undefined
  /** The approvals that are selected for one decision. */
  readonly marked: ReadonlySet<ApprovalId>
  readonly onSelect: (id: ApprovalId) => void
  readonly onMark: (id: ApprovalId) => void
  readonly onExtend: (id: ApprovalId) => void
}) => {
  const scroller = useRef<HTMLDivElement>(null)
  const items = useMemo(() => toItems(groups), [groups])
  const count = groups.reduce((sum, { approvals }) => sum + approvals.length, 0)
  // oxlint-disable-next-line react/incompatible-library -- nothing here memoizes by its return value
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (items[index]?.heading === undefined ? ROW_HEIGHT : HEADING_HEIGHT),
    overscan: 8,
    getItemKey: (index) => {
      const item = items[index]
      return item?.heading === undefined
        ? (item?.approval.approval_id ?? index)
        : `group ${item.heading.name}`
    }
  })
  // A heading has another height than the row that was in its place.
  useEffect(() => virtual.measure(), [virtual, groups])
  const index = items.findIndex(
    (item) => item.heading === undefined && item.approval.approval_id === selected
  )
  const show = useEffectEvent(() => {
    if (index >= 0) virtual.scrollToIndex(index)
  })
  // The inbox arrives in parts: the approval of a link may be listed only with a later one.
  const isListed = index >= 0
  useEffect(() => {
    if (selected !== undefined && isListed) show()
  }, [selected, isListed])
  const rows = virtual.getVirtualItems()
  return (
    <div
      ref={scroller}
      className="pending-list"
      role="listbox"
      aria-label={`Pending approvals, sorted by ${order}`}
      tabIndex={0}
      aria-multiselectable="true"
      aria-activedescendant={rows.some((row) => row.index === index) ? `option-${selected}` : undefined}
    >
      <div className="pending-rows" role="presentation" style={{ height: virtual.getTotalSize() }}>
        {rows.map(({ index, key, start }) => {
          const item = items[index]
          if (item === undefined) return null
          if (item.heading !== undefined) {
            return (
              <div
                key={key}
                className="pending-heading"
                role="presentation"
                style={{ transform: `translateY(${start}px)` }}
              >
                <UntrustedText text={item.heading.name} />{" "}
                <span className="quiet">{item.heading.approvals.length.toLocaleString("en")}</span>
              </div>
            )
          }
          const { approval, position } = item
          return (
            <Row
              key={key}
              approval={approval}
              columns={columns}
              selected={approval.approval_id === selected}
              marked={marked.has(approval.approval_id)}
              onSelect={onSelect}
              onMark={onMark}
              onExtend={onExtend}
              start={start}
              position={position}
              count={count}
            />
          )
        })}
      </div>
    </div>
  )
}

const Row = memo(function Row({
  approval,
  columns,
  count,
  marked,
  onExtend,
  onMark,
  onSelect,
  position,
  selected,
  start
}: {
  readonly approval: InboxApproval
  readonly columns: ReadonlyArray<InboxColumn>
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
  const { line } = approval
  const amount = columns.includes("amount") ? summaryAmount(approval) : undefined
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
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey) openInNewTab(`/approvals/${approval.approval_id}`)
        else (event.shiftKey ? onExtend : onSelect)(approval.approval_id)
      }}
      onAuxClick={({ button }) => {
        if (button === 1) openInNewTab(`/approvals/${approval.approval_id}`)
      }}
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
        <ApprovalLine tool={approval.tool} line={line} />
        {amount === undefined ? null : <span className="row-amount">{amount.text}</span>}
      </span>
      <span className="row-more">
        <span className="row-class">
          <Facts approval={approval} columns={columns} />
        </span>
        {progress === "" ? null : <span className="row-progress">{progress}</span>}
        {findObstacle(approval, session) === "approved" ? <Badge tone="good">You approved</Badge> : null}
        {line === undefined || line.newest_question === line.newest_answer ? null : line.newest_answer >
          line.newest_question ? (
          <Badge tone="note">Agent wrote</Badge>
        ) : (
          <Badge tone="quiet">Answer awaited</Badge>
        )}
        {approval.stage === "admin" ? <Badge tone="note">Escalated</Badge> : null}
        {columns.includes("due") ? (
          <Countdown from={approval.requested_at} until={approval.expires_at} suffix=" left" />
        ) : null}
      </span>
    </div>
  )
})

/** Facts about an approval on one line, with dots between them. */
const Facts = ({
  approval: { action_class, line, requested_at, tool },
  columns
}: {
  readonly approval: InboxApproval
  readonly columns: ReadonlyArray<InboxColumn>
}) => {
  const hasSentence = line !== undefined && line.rule_summary !== null
  const facts: ReadonlyArray<readonly [InboxColumn, ReactNode]> = [
    ...(line === undefined || line.about === null
      ? []
      : [["session", <UntrustedText key="text" text={line.about} />] as const]),
    ...(line === undefined
      ? []
      : [["requester", <UntrustedText key="text" text={line.requested_by.name} />] as const]),
    // The first line has the tool if there is no sentence.
    ["tool", <UntrustedText key="text" text={hasSentence ? tool : action_class} />],
    ["age", <RelativeTime key="time" time={requested_at} />]
  ]
  return facts
    .filter(([column]) => columns.includes(column))
    .map(([column, fact], index) => (
      <Fragment key={column}>
        {index === 0 ? null : " · "}
        {fact}
      </Fragment>
    ))
}
