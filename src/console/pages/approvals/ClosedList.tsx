import { DateTime } from "effect"
import { useEffect, useRef } from "react"
import type { ClosedPage } from "../../../api/console/ClosedApprovals.ts"
import type { InboxApproval } from "../../../api/Console.ts"
import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import {
  closedPagesAtom,
  closedQuery,
  matchesClosedFilter,
  toClosedFilter
} from "../../state/closedApprovals.ts"
import { inboxAtom } from "../../state/inbox.ts"
import { useLoadedItems } from "../../state/pagedAtom.ts"
import { PagedList } from "../../ui/PagedList.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime, RelativeTime } from "../../ui/Time.tsx"
import { useKeyboardShortcuts } from "../../ui/useKeyboardShortcuts.ts"
import { useQueryState } from "../../ui/useQueryState.ts"
import { ApprovalLine } from "./ApprovalLine.tsx"
import { ApprovalStatusBadge } from "./ApprovalStatusBadge.tsx"
import { ClosedFilters } from "./ClosedFilters.tsx"

const closedAt = ({ decided_at, requested_at }: ApprovalSnapshot): number =>
  DateTime.toEpochMillis(decided_at ?? requested_at)

/** Last closed first. */
const lastClosedFirst = (left: ApprovalSnapshot, right: ApprovalSnapshot): number =>
  closedAt(right) - closedAt(left) || (left.approval_id < right.approval_id ? 1 : -1)

/** Closed approvals, last closed first, each with its outcome and who decided. The filters are in the address. */
export default function ClosedList({
  onSelect,
  selected
}: {
  readonly selected: ApprovalId | undefined
  readonly onSelect: (id: ApprovalId) => void
}) {
  const [query, setQuery] = useQueryState(closedQuery)
  const search = closedQuery.write("", query)
  const atom = closedPagesAtom(search)
  const pages = useLoadedItems(atom)
  const { fullReads } = useAtomValue(inboxAtom)
  const known = useRef(Math.max(1, fullReads))
  useEffect(() => {
    // The stream was interrupted: approvals that closed meanwhile did not arrive by it.
    if (fullReads > known.current) refresh(atom)
    known.current = Math.max(1, fullReads)
  }, [atom, fullReads])
  return (
    <div className="decided-list">
      <ClosedFilters
        query={query}
        setQuery={setQuery}
        decidedBy={
          pages.flatMap(({ approvals }) => approvals).find(({ decided_by }) => decided_by?.id === query.by)
            ?.decided_by?.name
        }
      />
      <PagedList key={search} atom={atom}>
        {(pages) => <Pages pages={pages} selected={selected} onSelect={onSelect} />}
      </PagedList>
    </div>
  )
}

const Pages = ({
  onSelect,
  pages,
  selected
}: {
  readonly pages: ReadonlyArray<ClosedPage>
  readonly selected: ApprovalId | undefined
  readonly onSelect: (id: ApprovalId) => void
}) => {
  const { closed } = useAtomValue(inboxAtom)
  const [query] = useQueryState(closedQuery)
  const filter = toClosedFilter(query)
  const listed = pages.flatMap(({ approvals }) => approvals)
  const added = [...closed.values()].filter((one) => matchesClosedFilter(one, filter))
  const shown = [
    ...new Map(
      [...listed, ...added].map((one): [ApprovalId, InboxApproval] => [one.approval_id, one])
    ).values()
  ].toSorted(lastClosedFirst)
  const searched_to = pages.at(-1)?.searched_to ?? null
  return (
    <>
      {shown.length === 0 ? (
        <EmptyState
          title={Object.keys(filter).length === 0 ? "No closed approvals" : "No closed approvals match"}
        />
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
                  <ApprovalLine tool={approval.tool} line={approval.line} />
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
      )}
      {searched_to === null ? null : (
        <p className="quiet small closed-searched">
          Searched back to <AbsoluteTime time={searched_to} />. Load more to search older approvals.
        </p>
      )}
    </>
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
