import { Schema } from "effect"
import { lazy, Suspense, useEffect, useState } from "react"
import { navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { ApprovalId } from "../../../domain/Ids.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { inboxAtom, type InboxState } from "../../state/inbox.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { Skeleton } from "../../ui/Skeleton.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { useKeyboardShortcuts } from "../../ui/useKeyboardShortcuts.ts"
import type { Verdict } from "./ApprovalDetail.tsx"
import { PendingList } from "./PendingList.tsx"

const loadDetail = () => import("./ApprovalDetail.tsx")

// The list is the first thing most visits need, so the panes beside it are loaded after it.
const Detail = lazy(loadDetail)
const Decided = lazy(() => import("./ClosedList.tsx"))

const isApprovalId = Schema.is(ApprovalId)

const go = (id: ApprovalId | undefined) =>
  navigate(id === undefined ? "/approvals" : `/approvals/${id}`, { replace: true })

/** The approvals page: the live list of pending approvals, or the closed ones, beside the selected approval. */
export default function Inbox({ params }: PageProps) {
  const inbox = useAtomValue(inboxAtom)
  const [tab, setTab] = useState<"pending" | "closed">("pending")
  const [verdict, setVerdict] = useState<Verdict>()
  const selected = isApprovalId(params["id"]) ? params["id"] : undefined
  const position = usePosition(inbox, selected)
  const isLoaded = inbox.phase !== "loading"
  useEffect(() => {
    if (isLoaded) void loadDetail()
  }, [isLoaded])

  const move = (by: number) => {
    const { pending } = inbox
    if (pending.length === 0) return
    const index = selected === undefined ? 0 : position.index + (position.isListed || by < 0 ? by : 0)
    go(pending[Math.min(Math.max(index, 0), pending.length - 1)]?.approval_id)
    setVerdict(undefined)
  }
  useKeyboardShortcuts({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    a: () => (selected === undefined ? undefined : setVerdict("approve")),
    r: () => (selected === undefined ? undefined : setVerdict("reject")),
    Escape: () => setVerdict(undefined)
  })
  return (
    <div className={selected === undefined ? "inbox" : "inbox reading"}>
      <PageHeader
        title="Approvals"
        aside={
          <Tabs
            label="Approval status"
            selected={tab}
            onSelect={setTab}
            options={[
              [
                "pending",
                inbox.phase === "loading" ? "Pending" : `Pending ${inbox.pending.length.toLocaleString("en")}`
              ],
              ["closed", "Closed"]
            ]}
          />
        }
      >
        {inbox.phase === "live" ? (
          <span className="live">Live · sorted by deadline</span>
        ) : (
          <span role="status" className="live off">
            {inbox.phase === "loading" ? "Connecting…" : "Reconnecting… Data shown may be stale."}
          </span>
        )}
      </PageHeader>
      <div className="inbox-panes">
        <section
          className="pane list-pane"
          aria-label={tab === "pending" ? "Pending approvals" : "Closed approvals"}
        >
          {tab === "closed" ? (
            <Suspense fallback={<Skeleton lines={8} />}>
              <Decided selected={selected} onSelect={go} />
            </Suspense>
          ) : inbox.phase === "loading" ? (
            <Skeleton lines={8} />
          ) : inbox.pending.length === 0 ? (
            <EmptyState title="No pending approvals">
              Steps that require approval appear here automatically.
            </EmptyState>
          ) : (
            <PendingList
              approvals={inbox.pending}
              selected={selected}
              onSelect={(id) => {
                go(id)
                setVerdict(undefined)
              }}
            />
          )}
        </section>
        <section className="pane detail-pane" aria-label="Selected approval">
          {selected === undefined ? (
            <div className="hint-pane">
              <p>Select an approval to see what the agent requests.</p>
              <p className="keys">
                <kbd>j</kbd> next <kbd>k</kbd> previous <kbd>a</kbd> approve <kbd>r</kbd> reject
              </p>
            </div>
          ) : (
            <Suspense fallback={<Skeleton />}>
              <Detail
                key={selected}
                id={selected}
                inbox={inbox}
                verdict={verdict}
                onVerdict={setVerdict}
                onNext={() => move(1)}
                onBack={() => go(undefined)}
              />
            </Suspense>
          )}
        </section>
      </div>
    </div>
  )
}

/** The index of the selected approval in the list. After it closes, its last index: the next approval moves up to that place. */
const usePosition = ({ pending }: InboxState, selected: ApprovalId | undefined) => {
  const index = selected === undefined ? -1 : pending.findIndex(({ approval_id }) => approval_id === selected)
  const [last, setLast] = useState(0)
  if (index >= 0 && index !== last) setLast(index)
  return index >= 0 ? { index, isListed: true } : { index: last, isListed: false }
}
