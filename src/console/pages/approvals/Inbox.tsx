import { Schema } from "effect"
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react"
import { preload } from "../../app/preload.ts"
import { Link, navigate, withQuery } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { ApprovalId } from "../../../domain/Ids.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { closedExportFilter, closedQuery } from "../../state/closedApprovals.ts"
import { inboxAtom } from "../../state/inbox.ts"
import { useSession } from "../../state/session.ts"
import { useNow } from "../../state/useNow.ts"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { focusIfLost, ScrollPane } from "../../ui/ScrollPane.tsx"
import { Skeleton } from "../../ui/Skeleton.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import { SelectionBar } from "../../ui/selection/SelectionBar.tsx"
import { useReviewList } from "../../ui/selection/useReviewList.ts"
import { EndedApprovals } from "./batch/EndedApprovals.tsx"
import { useSelectedApprovals } from "./batch/useSelectedApprovals.ts"
import { countParts, DEFAULT_COLUMNS, filterApprovals, inboxQuery, orderName } from "./filterApprovals.ts"
import { InboxToolbar } from "./InboxToolbar.tsx"
import { PendingList } from "./PendingList.tsx"
import { useHeldArrivals } from "./useHeldArrivals.ts"

const loadDetail = () => import("./ApprovalDetail.tsx")

// The list is the first thing most visits need, so the panes beside it are loaded after it.
const Detail = lazy(loadDetail)
const Decided = lazy(() => import("./ClosedList.tsx"))
const NothingPending = lazy(() => import("./NothingPending.tsx"))
const loadSheet = () => import("./batch/DecisionSheet.tsx")
const DecisionSheet = lazy(loadSheet)

const lacksPointer = matchMedia("(hover: none)").matches

const isApprovalId = Schema.is(ApprovalId)

/** The approvals page: the live list of pending approvals, or the closed ones, beside the selected approval. */
export default function Inbox({ params }: PageProps) {
  const inbox = useAtomValue(inboxAtom)
  const [query, setQuery] = useQueryState(inboxQuery)
  const [closed] = useQueryState(closedQuery)
  const { columns = DEFAULT_COLUMNS, group, sort, text = "" } = query
  const tab = query.tab ?? "pending"
  const session = useSession()
  const canDecide = session.scopes.includes("approvals.decide")
  const part = query.show ?? (canDecide ? "mine" : "all")
  const selected = isApprovalId(params["id"]) ? params["id"] : undefined
  const [isPointing, setPointing] = useState(false)
  const arrivals = useHeldArrivals(inbox.pending, {
    // Without a pointer, nothing tells when a finger is about to touch a row.
    isHolding: isPointing || lacksPointer,
    isAppending: group === undefined && sort === undefined,
    pinned: selected
  })
  const { held, listed } = arrivals
  const groups = useMemo(
    () => filterApprovals(listed, { part, text, group, sort }, session),
    [listed, part, text, group, sort, session]
  )
  const heldCount = useMemo(
    () =>
      filterApprovals(held, { part, text, group, sort }, session).reduce(
        (sum, { approvals }) => sum + approvals.length,
        0
      ),
    [held, part, text, group, sort, session]
  )
  const ids = useMemo(
    () => groups.flatMap(({ approvals }) => approvals.map(({ approval_id }) => approval_id)),
    [groups]
  )
  const counts = useMemo(() => countParts(inbox.pending, session), [inbox.pending, session])
  const show = (id: ApprovalId | undefined, shownTab: "pending" | "closed") =>
    navigate(
      (id === undefined ? "/approvals" : `/approvals/${id}`) +
        inboxQuery.write(location.search, { tab: shownTab === "closed" ? shownTab : undefined }),
      // Opening the first approval is a step that Back undoes; moving on to the next one is not.
      { replace: id === undefined || selected !== undefined }
    )
  const go = (id: ApprovalId | undefined) => show(id, tab)
  const selection = useSelectedApprovals(inbox, ids, `${part} ${text}`)
  const hasSelection = selection.pending.length > 0
  const list = useReviewList({
    // The closed list has its own order.
    list: tab === "closed" ? undefined : ids,
    open: selected,
    onOpen: go,
    selection,
    isSelectable: () => canDecide,
    keys: hasSelection && canDecide ? ["a", "r"] : []
  })
  const page = useRef<HTMLDivElement>(null)
  const isLoaded = inbox.phase !== "loading"
  useEffect(() => {
    if (isLoaded) preload(loadDetail)
  }, [isLoaded])

  useEffect(() => {
    if (hasSelection) preload(loadSheet)
  }, [hasSelection])

  const focusList = () =>
    focusIfLost(() => page.current?.querySelector<HTMLElement>("[role=listbox]") ?? page.current)
  const closeSheet = () => {
    list.closeSheet()
    // The button that opened the sheet may be gone: it goes with the last selected approval.
    focusList()
  }
  return (
    <div ref={page} tabIndex={-1} className={selected === undefined ? "inbox" : "inbox reading"}>
      <PageHeader
        title="Approvals"
        aside={
          <>
            {tab === "closed" ? (
              <ExportButton path="/closed-approvals" filter={closedExportFilter(closed)} />
            ) : null}
            <Tabs
              label="Approval status"
              selected={tab}
              onSelect={(name) => show(selected, name)}
              options={[
                [
                  "pending",
                  inbox.phase === "loading"
                    ? "Pending"
                    : `Pending ${inbox.pending.length.toLocaleString("en")}`
                ],
                ["closed", "Closed"]
              ]}
            />
          </>
        }
      >
        {/* One element: screen readers announce changes of an element that exists, not a new one. */}
        <span role="status" className={inbox.phase === "live" ? "live" : "live off"}>
          {inbox.phase === "live"
            ? `Live · sorted by ${orderName(sort)}`
            : inbox.phase === "loading"
              ? "Connecting…"
              : "Reconnecting… Data shown may be stale."}
        </span>
        {inbox.phase === "loading" ? null : <PendingAnnouncement count={inbox.pending.length} />}
      </PageHeader>
      <div className="inbox-panes">
        <section
          className="pane list-pane"
          aria-label={tab === "pending" ? "Pending approvals" : "Closed approvals"}
          onPointerEnter={({ pointerType }) => setPointing(pointerType === "mouse")}
          onPointerLeave={() => setPointing(false)}
        >
          {tab === "closed" || inbox.pending.length === 0 ? null : (
            <InboxToolbar
              canDecide={canDecide}
              counts={counts}
              part={part}
              text={text}
              group={group}
              onPart={(show) => setQuery({ show })}
              onSearch={(words) => setQuery({ text: words === "" ? undefined : words }, { replace: true })}
              onGroup={(by) => setQuery({ group: by })}
              sort={sort}
              onSort={(by) => setQuery({ sort: by })}
              columns={columns}
              onColumns={(shown) => setQuery({ columns: shown })}
            />
          )}
          {tab === "closed" ? (
            <Suspense fallback={<Skeleton lines={8} />}>
              <Decided selected={selected} onSelect={go} />
            </Suspense>
          ) : inbox.phase === "loading" ? (
            <Skeleton lines={8} />
          ) : inbox.pending.length === 0 ? (
            <Suspense fallback={<Skeleton lines={8} />}>
              <NothingPending />
            </Suspense>
          ) : ids.length === 0 ? (
            <EmptyState title="No approval matches">
              {text !== "" ? (
                <>
                  The filter looks at the lines of the list.{" "}
                  <Link to={withQuery("/search", { text, kind: "approval" })}>
                    Search all arguments for “{text}”
                  </Link>
                </>
              ) : part === "mine" ? (
                "Others wait for people with another key. Choose All to see them."
              ) : (
                "Other approvals are pending. Change the filter to see them."
              )}
            </EmptyState>
          ) : (
            <PendingList
              groups={groups}
              columns={columns}
              order={orderName(sort)}
              selected={selected}
              marked={selection.ids}
              onSelect={go}
              onMark={(id) => (canDecide ? selection.toggle(id) : undefined)}
              onExtend={(id) => (canDecide ? selection.extendTo(id) : undefined)}
            />
          )}
          {tab === "closed" || heldCount === 0 ? null : (
            <button type="button" className="held-arrivals" onClick={arrivals.showHeld}>
              ↑ Show {heldCount.toLocaleString("en")} new {heldCount === 1 ? "approval" : "approvals"}
            </button>
          )}
        </section>
        <ScrollPane label="Selected approval">
          {selected === undefined ? (
            <div className="hint-pane">
              <p>Select an approval to see what the agent requests.</p>
              <p className="keys">
                <kbd>j</kbd> next <kbd>k</kbd> previous <kbd>a</kbd> approve <kbd>r</kbd> reject <kbd>x</kbd>{" "}
                select several
              </p>
            </div>
          ) : (
            <Suspense fallback={<Skeleton />}>
              <Detail
                key={selected}
                id={selected}
                inbox={inbox}
                hasKeys={!hasSelection}
                marked={selection.ids.has(selected)}
                onMark={list.toggle}
                onNext={tab === "closed" ? undefined : () => void list.move(1)}
                onBack={() => {
                  go(undefined)
                  focusList()
                }}
              />
            </Suspense>
          )}
        </ScrollPane>
      </div>
      <SelectionBar
        selection={selection}
        count={selection.pending.length}
        {...(ids.length > selection.pending.length && canDecide
          ? { all: { label: "Select all listed", load: () => ids } }
          : {})}
        actions={
          <>
            {selection.ended.length === 0 ? null : (
              <Button small onClick={() => selection.remove(selection.ended.map(({ id }) => id))}>
                Dismiss
              </Button>
            )}
            {hasSelection && canDecide ? (
              <Button small kind="primary" onClick={list.openSheet}>
                Review and decide <kbd>a</kbd>
              </Button>
            ) : null}
          </>
        }
      >
        {selection.ended.length === 0 ? null : <EndedApprovals ended={selection.ended} />}
      </SelectionBar>
      {list.isSheetOpen ? (
        <Suspense fallback={null}>
          <DecisionSheet
            inbox={inbox}
            selection={selection}
            comment={list.comment}
            onComment={list.setComment}
            onClose={closeSheet}
          />
        </Suspense>
      ) : null}
    </div>
  )
}

/** How often screen readers hear the number of pending approvals at most, in milliseconds. */
const ANNOUNCEMENT_MS = 10_000

/** Announces changes of the number of pending approvals. */
const PendingAnnouncement = ({ count }: { readonly count: number }) => {
  const now = useNow()
  const [announced, setAnnounced] = useState({ count, at: now })
  if (count !== announced.count && now - announced.at >= ANNOUNCEMENT_MS) setAnnounced({ count, at: now })
  return (
    <span className="visually-hidden" role="status">
      {announced.count === 1
        ? "1 pending approval"
        : `${announced.count.toLocaleString("en")} pending approvals`}
    </span>
  )
}
