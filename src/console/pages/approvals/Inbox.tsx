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

// What is beside the list comes after it: the list is what most look for first.
const Detail = lazy(loadDetail)
const Decided = lazy(() => import("./ClosedList.tsx"))

const isApprovalId = Schema.is(ApprovalId)

const go = (id: ApprovalId | undefined) =>
  navigate(id === undefined ? "/approvals" : `/approvals/${id}`, { replace: true })

/** What waits for a person, live, beside the one that is being read. */
export default function Inbox({ params }: PageProps) {
  const inbox = useAtomValue(inboxAtom)
  const [tab, setTab] = useState<"waiting" | "decided">("waiting")
  const [verdict, setVerdict] = useState<Verdict>()
  const selected = isApprovalId(params["id"]) ? params["id"] : undefined
  const at = usePosition(inbox, selected)
  const listed = inbox.phase !== "loading"
  useEffect(() => {
    if (listed) void loadDetail()
  }, [listed])

  const move = (by: number) => {
    const { pending } = inbox
    if (pending.length === 0) return
    const index = selected === undefined ? 0 : at.index + (at.there || by < 0 ? by : 0)
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
            label="Which approvals"
            chosen={tab}
            onChoose={setTab}
            options={[
              [
                "waiting",
                inbox.phase === "loading" ? "Waiting" : `Waiting ${inbox.pending.length.toLocaleString("en")}`
              ],
              ["decided", "Closed"]
            ]}
          />
        }
      >
        {inbox.phase === "live" ? (
          <span className="live">Live, what closes first on top</span>
        ) : (
          <span role="status" className="live off">
            {inbox.phase === "loading" ? "Connecting" : "Connecting again; what is shown may be old"}
          </span>
        )}
      </PageHeader>
      <div className="inbox-panes">
        <section
          className="pane list-pane"
          aria-label={tab === "waiting" ? "Waiting approvals" : "Closed approvals"}
        >
          {tab === "decided" ? (
            <Suspense fallback={<Skeleton lines={8} />}>
              <Decided selected={selected} onSelect={go} />
            </Suspense>
          ) : inbox.phase === "loading" ? (
            <Skeleton lines={8} />
          ) : inbox.pending.length === 0 ? (
            <EmptyState title="Nothing waits for you">
              When a rule holds an agent's step for a person, it appears here by itself.
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
        <section className="pane detail-pane" aria-label="The approval">
          {selected === undefined ? (
            <div className="hint-pane">
              <p>Choose an approval to read what the agent wants to do.</p>
              <p className="keys">
                <kbd>j</kbd> <kbd>k</kbd> next and previous <kbd>a</kbd> approve <kbd>r</kbd> reject
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

/** Where the selected one stands; once it is closed, where it stood: what follows it there is next. */
const usePosition = ({ pending }: InboxState, selected: ApprovalId | undefined) => {
  const index = selected === undefined ? -1 : pending.findIndex(({ approval_id }) => approval_id === selected)
  const [last, setLast] = useState(0)
  if (index >= 0 && index !== last) setLast(index)
  return index >= 0 ? { index, there: true } : { index: last, there: false }
}
