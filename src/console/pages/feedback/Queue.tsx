import { Schema } from "effect"
import { lazy, Suspense, useEffect, useRef, useState } from "react"
import { MAX_REVIEWS } from "../../../api/ReviewBatch.ts"
import { FeedbackStatus } from "../../../domain/tasks/Feedback.ts"
import { FeedbackId, TaskId } from "../../../domain/Ids.ts"
import { Link, navigate, useQueryParameter, withQuery } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { feedbackAtom } from "../../state/feedback.ts"
import { loadAtLeast } from "../../state/pagedAtom.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { focusIfLost, ScrollPane } from "../../ui/ScrollPane.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { SelectionBar } from "../../ui/selection/SelectionBar.tsx"
import { selectionShortcuts } from "../../ui/selection/selectionShortcuts.ts"
import { useSelection } from "../../ui/selection/useSelection.ts"
import { useKeyboardShortcuts } from "../../ui/useKeyboardShortcuts.ts"
import { FeedbackListRow } from "./FeedbackListRow.tsx"
import { StatusFilter, TaskFilter } from "./Filters.tsx"
import { Review, type ReviewVerdict } from "./Review.tsx"

const loadSheet = () => import("./batch/ReviewSheet.tsx")
const ReviewSheet = lazy(loadSheet)

interface Filter {
  readonly task: TaskId | undefined
  readonly status: FeedbackStatus
}

const isFeedbackId = Schema.is(FeedbackId)
const isTaskId = Schema.is(TaskId)

/** The feedback page: the feedback of one task or all, beside the selected entry and its review. */
export default function Queue({ params }: PageProps) {
  const can = useCan()
  const wantedStatus = useQueryParameter("status")
  const wantedTask = useQueryParameter("task") ?? params["task"]
  const filter: Filter = {
    task: isTaskId(wantedTask) ? wantedTask : undefined,
    status: FeedbackStatus.literals.find((one) => one === wantedStatus) ?? "pending"
  }
  const show = (id: FeedbackId | undefined, { status, task }: Filter) =>
    navigate(
      withQuery(id === undefined ? "/feedback" : `/feedback/${id}`, {
        status: status === "pending" ? undefined : status,
        task
      }),
      // Opening the first entry is a step that Back undoes; moving on to the next one is not.
      { replace: id === undefined || selected !== undefined }
    )
  const setFilter = (next: Filter) => show(selected, next)
  /** The verdict, bound to the entry that was on the screen when it was chosen. */
  const [choice, setChoice] = useState<{ readonly id: FeedbackId; readonly verdict: ReviewVerdict }>()
  const [readId, setReadId] = useState<FeedbackId>()
  const pane = useRef<HTMLElement>(null)
  const atom = feedbackAtom({ status: filter.status, task: filter.task ?? "all" })
  const list = useAtomValue(atom)
  const items =
    list._tag === "Initial"
      ? []
      : list._tag === "Success"
        ? list.value.items.flatMap((page) => page.items)
        : []
  const selected = isFeedbackId(params["id"]) ? params["id"] : undefined
  const index = items.findIndex(({ id }) => id === selected)
  const go = (id: FeedbackId | undefined) => {
    setChoice(undefined)
    show(id, filter)
  }
  const move = (by: number) => {
    if (items.length === 0) return undefined
    const next = items[Math.min(Math.max(index + by, 0), items.length - 1)]?.id
    go(next)
    return next
  }
  const canSelect = can("feedback.write") && (filter.status === "pending" || filter.status === "staged")
  const selection = useSelection({
    list: items.map(({ id }) => id),
    max: MAX_REVIEWS,
    noun: "corrections",
    scope: `${filter.status} ${filter.task ?? ""}`
  })
  // A list that its user has loaded further, or selected rows of, stays as it is.
  useRefreshing(atom, list._tag === "Success" && list.value.items.length === 1 && selection.ids.size === 0)
  const marked = items.filter(({ id }) => selection.ids.has(id))
  const gone = selection.ids.size - marked.length
  const hasSelection = marked.length > 0
  const [isReviewing, setReviewing] = useState(false)
  const [note, setNote] = useState("")
  useEffect(() => {
    if (hasSelection) void loadSheet()
  }, [hasSelection])
  // Reviewed feedback leaves the pending list, so the entry after it is selected next.
  const onReviewed = () => {
    go((items[index + 1] ?? items[index - 1])?.id)
    // The button that was pressed is gone.
    focusIfLost(() => pane.current)
  }
  const setVerdict = (verdict: ReviewVerdict | undefined) =>
    setChoice(selected === undefined || verdict === undefined ? undefined : { id: selected, verdict })
  /** A key acts only on what its user has seen. */
  const choose = (verdict: ReviewVerdict) => {
    if (hasSelection) setReviewing(true)
    else if (selected !== undefined && readId === selected && can("feedback.write")) setVerdict(verdict)
  }
  useKeyboardShortcuts({
    j: () => void move(1),
    k: () => void move(-1),
    ...(canSelect ? selectionShortcuts({ selection, open: index < 0 ? undefined : selected, move }) : {}),
    s: () => choose("stage"),
    r: () => choose("reject"),
    Escape: () => (choice === undefined ? selection.clear() : setVerdict(undefined))
  })
  return (
    <div className={selected === undefined ? "inbox" : "inbox reading"}>
      <PageHeader
        title="Feedback"
        aside={
          <>
            <StatusFilter status={filter.status} onChange={(status) => setFilter({ ...filter, status })} />
            {can("tasks.read") ? (
              <TaskFilter task={filter.task} onChange={(task) => setFilter({ ...filter, task })} />
            ) : null}
            {filter.task === undefined ? null : (
              <Link className="button" to={`/promotion/${filter.task}`}>
                Preview promotion
              </Link>
            )}
            <ExportButton path="/feedback" filter={{ status: filter.status, task_id: filter.task }} />
          </>
        }
      >
        Ratings and corrections of task answers.
      </PageHeader>
      <div className="inbox-panes">
        <section className="pane list-pane" aria-label="Feedback">
          <PagedList atom={atom}>
            {(feedback) =>
              feedback.length === 0 ? (
                <EmptyState
                  title={
                    filter.status === "pending" ? "No feedback to review" : `No ${filter.status} feedback`
                  }
                >
                  {filter.status === "pending"
                    ? "Corrections submitted through the API appear here."
                    : undefined}
                </EmptyState>
              ) : (
                <ul>
                  {feedback.map((record) => (
                    <FeedbackListRow
                      key={record.id}
                      record={record}
                      selected={record.id === selected}
                      selection={canSelect ? selection : undefined}
                      onSelect={go}
                    />
                  ))}
                </ul>
              )
            }
          </PagedList>
        </section>
        <ScrollPane ref={pane} label="Selected feedback">
          {selected === undefined ? (
            <div className="hint-pane">
              <p>Select feedback to compare the answer with the correction.</p>
              <p className="keys">
                <kbd>j</kbd> next <kbd>k</kbd> previous <kbd>s</kbd> stage <kbd>r</kbd> reject <kbd>x</kbd>{" "}
                select several
              </p>
            </div>
          ) : (
            <Review
              key={selected}
              id={selected}
              armed={readId === selected}
              onRead={setReadId}
              verdict={choice?.id === selected ? choice.verdict : undefined}
              onVerdict={setVerdict}
              onReviewed={onReviewed}
              onBack={() => go(undefined)}
            />
          )}
        </ScrollPane>
      </div>
      <SelectionBar
        selection={selection}
        count={marked.length}
        all={{
          label: `Select all of this filter, at most ${MAX_REVIEWS}`,
          load: async () => (await loadAtLeast(atom, MAX_REVIEWS)).map(({ id }) => id)
        }}
        actions={
          hasSelection ? (
            <Button small kind="primary" onClick={() => setReviewing(true)}>
              Review together <kbd>s</kbd>
            </Button>
          ) : null
        }
      >
        {gone === 0 ? null : (
          <p>{gone === 1 ? "1 correction has" : `${gone} corrections have`} left this list meanwhile.</p>
        )}
      </SelectionBar>
      {isReviewing ? (
        <Suspense fallback={null}>
          <ReviewSheet
            selected={marked}
            note={note}
            onNote={setNote}
            onRemove={selection.remove}
            onClose={() => {
              setReviewing(false)
              focusIfLost(() => pane.current)
            }}
          />
        </Suspense>
      ) : null}
    </div>
  )
}
