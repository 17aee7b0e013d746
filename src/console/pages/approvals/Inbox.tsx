import { Schema } from "effect"
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react"
import type { InboxApproval } from "../../../api/Console.ts"
import { preload } from "../../app/preload.ts"
import { navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { ApprovalId } from "../../../domain/Ids.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { closedExportFilter, closedQuery } from "../../state/closedApprovals.ts"
import { inboxAtom } from "../../state/inbox.ts"
import { useSession } from "../../state/session.ts"
import { useNow } from "../../state/useNow.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { focusIfLost, ScrollPane } from "../../ui/ScrollPane.tsx"
import { Skeleton } from "../../ui/Skeleton.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import { useKeyboardShortcuts } from "../../ui/useKeyboardShortcuts.ts"
import type { Verdict } from "./ApprovalDetail.tsx"
import { SelectionBar } from "./batch/SelectionBar.tsx"
import { useSelectedApprovals } from "./batch/useSelectedApprovals.ts"
import { countParts, filterApprovals, inboxQuery } from "./filterApprovals.ts"
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
  const { group, text = "" } = query
  const tab = query.tab ?? "pending"
  const session = useSession()
  const canDecide = session.scopes.includes("approvals.decide")
  const part = query.show ?? (canDecide ? "mine" : "all")
  const selected = isApprovalId(params["id"]) ? params["id"] : undefined
  const [isPointing, setPointing] = useState(false)
  const arrivals = useHeldArrivals(inbox.pending, {
    // Without a pointer, nothing tells when a finger is about to touch a row.
    isHolding: isPointing || lacksPointer,
    isAppending: group === undefined,
    pinned: selected
  })
  const { held, listed } = arrivals
  const groups = useMemo(
    () => filterApprovals(listed, { part, text, group }, session),
    [listed, part, text, group, session]
  )
  const heldCount = useMemo(
    () =>
      filterApprovals(held, { part, text, group }, session).reduce(
        (sum, { approvals }) => sum + approvals.length,
        0
      ),
    [held, part, text, group, session]
  )
  const shown = useMemo(() => groups.flatMap(({ approvals }) => approvals), [groups])
  const counts = useMemo(() => countParts(inbox.pending, session), [inbox.pending, session])
  const [verdict, setVerdict] = useState<Verdict>()
  const position = usePosition(shown, selected)
  const show = (id: ApprovalId | undefined, shownTab: "pending" | "closed") =>
    navigate(
      (id === undefined ? "/approvals" : `/approvals/${id}`) +
        inboxQuery.write(location.search, { tab: shownTab === "closed" ? shownTab : undefined }),
      // Opening the first approval is a step that Back undoes; moving on to the next one is not.
      { replace: id === undefined || selected !== undefined }
    )
  const go = (id: ApprovalId | undefined) => show(id, tab)
  const selection = useSelectedApprovals(inbox, shown, `${part} ${text}`)
  const hasSelection = selection.pending.length > 0
  const [isDeciding, setDeciding] = useState(false)
  const [comment, setComment] = useState("")
  const page = useRef<HTMLDivElement>(null)
  const isLoaded = inbox.phase !== "loading"
  useEffect(() => {
    if (isLoaded) preload(loadDetail)
  }, [isLoaded])

  useEffect(() => {
    if (hasSelection) preload(loadSheet)
  }, [hasSelection])

  const move = (by: number): ApprovalId | undefined => {
    if (shown.length === 0) return undefined
    const index = selected === undefined ? 0 : position.index + (position.isListed || by < 0 ? by : 0)
    const next = shown[Math.min(Math.max(index, 0), shown.length - 1)]?.approval_id
    go(next)
    setVerdict(undefined)
    return next
  }
  /** Moves, and selects the approvals on the way. */
  const extend = (by: number) => {
    if (!canDecide) return
    const next = move(by)
    if (next !== undefined) selection.extendTo(next, position.isListed ? selected : undefined)
  }
  const mark = () => {
    if (canDecide && selected !== undefined && position.isListed) selection.toggle(selected)
  }
  const openForm = (given: Verdict) => {
    if (hasSelection) setDeciding(canDecide)
    else if (selected !== undefined) setVerdict(given)
  }
  const focusList = () =>
    focusIfLost(() => page.current?.querySelector<HTMLElement>("[role=listbox]") ?? page.current)
  const closeSheet = () => {
    setDeciding(false)
    // The button that opened the sheet may be gone: it goes with the last selected approval.
    focusList()
  }
  useKeyboardShortcuts({
    // The closed list has its own order.
    ...(tab === "closed"
      ? {}
      : {
          j: () => void move(1),
          k: () => void move(-1),
          ArrowDown: () => void move(1),
          ArrowUp: () => void move(-1),
          "Shift+ArrowDown": () => extend(1),
          "Shift+ArrowUp": () => extend(-1)
        }),
    x: mark,
    X: () => {
      if (canDecide && selected !== undefined) selection.extendTo(selected)
    },
    a: () => openForm("approve"),
    r: () => openForm("reject"),
    Escape: () => (verdict === undefined ? selection.clear() : setVerdict(undefined))
  })
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
            ? "Live · sorted by deadline"
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
          ) : shown.length === 0 ? (
            <EmptyState title="No approval matches">
              {text === "" && part === "mine"
                ? "Others wait for people with another key. Choose All to see them."
                : "Other approvals are pending. Change the filter to see them."}
            </EmptyState>
          ) : (
            <PendingList
              groups={groups}
              selected={selected}
              marked={selection.ids}
              onSelect={(id) => {
                go(id)
                setVerdict(undefined)
              }}
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
                verdict={verdict}
                marked={selection.ids.has(selected)}
                onMark={mark}
                onVerdict={setVerdict}
                onNext={tab === "closed" ? undefined : () => void move(1)}
                onBack={() => {
                  go(undefined)
                  focusList()
                }}
              />
            </Suspense>
          )}
        </ScrollPane>
      </div>
      <SelectionBar selection={selection} canDecide={canDecide} onDecide={() => setDeciding(true)} />
      {isDeciding ? (
        <Suspense fallback={null}>
          <DecisionSheet
            selection={selection}
            comment={comment}
            onComment={setComment}
            onClose={closeSheet}
          />
        </Suspense>
      ) : null}
    </div>
  )
}

/** The index of the selected approval in the list. After it closes, its last index: the next approval moves up to that place. */
const usePosition = (pending: ReadonlyArray<InboxApproval>, selected: ApprovalId | undefined) => {
  const index = selected === undefined ? -1 : pending.findIndex(({ approval_id }) => approval_id === selected)
  const [last, setLast] = useState(0)
  if (index >= 0 && index !== last) setLast(index)
  return index >= 0 ? { index, isListed: true } : { index: last, isListed: false }
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
