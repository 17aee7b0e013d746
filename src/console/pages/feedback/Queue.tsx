import { DateTime, Schema } from "effect"
import { lazy, Suspense, useEffect, useRef } from "react"
import { MAX_REVIEWS } from "../../../api/ReviewBatch.ts"
import type { FeedbackFilter } from "../../../api/Feedback.ts"
import { FeedbackStatus, Score } from "../../../domain/tasks/Feedback.ts"
import { FeedbackId, TaskId } from "../../../domain/Ids.ts"
import { preload } from "../../app/preload.ts"
import { Link, navigate, pathAtom } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh, registry, useAtomValue } from "../../state/atoms.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { feedbackAtom, type FeedbackList, toFeedbackFilter } from "../../state/feedback.ts"
import { defineQuery, QueryDay } from "../../state/queryState.ts"
import { loadAtLeast, loadedItems } from "../../state/pagedAtom.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { DayField } from "../../ui/DayField.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { focusIfLost, ScrollPane } from "../../ui/ScrollPane.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { SelectionBar } from "../../ui/selection/SelectionBar.tsx"
import { useReviewList } from "../../ui/selection/useReviewList.ts"
import { useSelection } from "../../ui/selection/useSelection.ts"
import { Toolbar } from "../../ui/Toolbar.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import { FeedbackListRow } from "./FeedbackListRow.tsx"
import { ScoreFilter, StatusFilter, TaskFilter } from "./Filters.tsx"
import { NothingToReview } from "./NothingToReview.tsx"
import { Review } from "./Review.tsx"

const loadSheet = () => import("./ReviewSheet.tsx")
const ReviewSheet = lazy(loadSheet)

/** The filters in the address. Without a status: pending feedback. */
const parameters = defineQuery({
  status: Schema.Literals([...FeedbackStatus.literals, "all"]),
  task: TaskId,
  score: Schema.FiniteFromString.pipe(Schema.decodeTo(Score)),
  from: QueryDay,
  until: QueryDay
})

/** The filter of an export. */
const encodeFilter = (filter: FeedbackFilter): Readonly<Record<string, string | undefined>> => ({
  status: filter.status,
  task_id: filter.task_id,
  score: filter.score === undefined ? undefined : String(filter.score),
  created_after: filter.created_after === undefined ? undefined : DateTime.formatIso(filter.created_after),
  created_before: filter.created_before === undefined ? undefined : DateTime.formatIso(filter.created_before)
})

const isFeedbackId = Schema.is(FeedbackId)
const isTaskId = Schema.is(TaskId)

/** The feedback page: the feedback of one task or all, beside the selected entry and its review. */
export default function Queue({ params }: PageProps) {
  const can = useCan()
  const [query, setQuery] = useQueryState(parameters)
  const { from, score, status = "pending", until } = query
  const task = query.task ?? (isTaskId(params["task"]) ? params["task"] : undefined)
  const filter: FeedbackList = {
    status,
    task: task ?? "all",
    ...(score === undefined ? {} : { score }),
    ...(from === undefined ? {} : { from }),
    ...(until === undefined ? {} : { until })
  }
  const show = (id: FeedbackId | undefined) =>
    navigate(
      (id === undefined ? "/feedback" : `/feedback/${id}`) + parameters.write("", { ...query, task }),
      // Opening the first entry is a step that Back undoes; moving on to the next one is not.
      { replace: id === undefined || selected !== undefined }
    )
  const isNarrowed = score !== undefined || from !== undefined || until !== undefined
  const pane = useRef<HTMLElement>(null)
  const atom = feedbackAtom(filter)
  const list = useAtomValue(atom)
  const items = loadedItems(list)
  const selected = isFeedbackId(params["id"]) ? params["id"] : undefined
  const canSelect = can("feedback.write") && (status === "pending" || status === "staged")
  const ids = items.map(({ id }) => id)
  const selection = useSelection({
    list: ids,
    max: MAX_REVIEWS,
    noun: "corrections",
    scope: parameters.write("", { ...query, task })
  })
  // A list that its user has loaded further, or selected rows of, stays as it is.
  useRefreshing(atom, list._tag === "Success" && list.value.items.length === 1 && selection.ids.size === 0)
  const marked = items.filter(({ id }) => selection.ids.has(id)).length
  const gone = selection.ids.size - marked
  const hasSelection = marked > 0
  const review = useReviewList({
    list: ids,
    open: selected,
    onOpen: show,
    selection,
    isSelectable: () => canSelect,
    keys: hasSelection ? ["s", "r"] : []
  })
  useEffect(() => {
    if (hasSelection) preload(loadSheet)
  }, [hasSelection])
  // Reviewed feedback leaves the pending list, so the entry after it is selected next.
  const onReviewed = () => {
    refresh(atom)
    // Its user may have opened something else meanwhile.
    if (registry.get(pathAtom) !== `/feedback/${selected}`) return
    const index = items.findIndex(({ id }) => id === selected)
    show((items[index + 1] ?? items[index - 1])?.id)
    // The button that was pressed is gone.
    focusIfLost(() => pane.current)
  }
  return (
    <div className={selected === undefined ? "inbox" : "inbox reading"}>
      <PageHeader
        title="Feedback"
        aside={
          <>
            <StatusFilter
              status={status}
              onChange={(chosen) => setQuery({ status: chosen === "pending" ? undefined : chosen })}
            />
            {can("tasks.read") ? (
              <TaskFilter
                task={task}
                onChange={(chosen) =>
                  navigate("/feedback" + parameters.write("", { ...query, task: chosen }))
                }
              />
            ) : null}
            {task === undefined ? null : (
              <Link className="button" to={`/promotion/${task}`}>
                Preview promotion
              </Link>
            )}
            <ExportButton path="/feedback" filter={encodeFilter(toFeedbackFilter(filter))} />
          </>
        }
      >
        Ratings and corrections of task answers.
      </PageHeader>
      <div className="inbox-panes">
        <section className="pane list-pane" aria-label="Feedback">
          <Toolbar label="Filters of feedback">
            <ScoreFilter score={score} onChange={(chosen) => setQuery({ score: chosen })} />
            <DayField label="From" day={from} onChange={(day) => setQuery({ from: day })} />
            <DayField label="Until" day={until} onChange={(day) => setQuery({ until: day })} />
          </Toolbar>
          <PagedList atom={atom}>
            {(feedback) =>
              feedback.length === 0 && status === "pending" && !isNarrowed ? (
                <NothingToReview task={task} look={() => refresh(atom)} />
              ) : feedback.length === 0 ? (
                <EmptyState
                  title={
                    isNarrowed
                      ? "No matching feedback"
                      : status === "all"
                        ? "No feedback"
                        : `No ${status} feedback`
                  }
                />
              ) : (
                <ul>
                  {feedback.map((record) => (
                    <FeedbackListRow
                      key={record.id}
                      record={record}
                      selected={record.id === selected}
                      selection={canSelect ? selection : undefined}
                      onSelect={show}
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
              hasKeys={!hasSelection}
              onReviewed={onReviewed}
              onBack={() => show(undefined)}
            />
          )}
        </ScrollPane>
      </div>
      <SelectionBar
        selection={selection}
        count={marked}
        all={{
          label: `Select all of this filter, at most ${MAX_REVIEWS}`,
          load: async () => (await loadAtLeast(atom, MAX_REVIEWS)).map(({ id }) => id)
        }}
        actions={
          hasSelection ? (
            <Button small kind="primary" onClick={review.openSheet}>
              Review together <kbd>s</kbd>
            </Button>
          ) : null
        }
      >
        {gone === 0 ? null : (
          <p>{gone === 1 ? "1 correction has" : `${gone} corrections have`} left this list meanwhile.</p>
        )}
      </SelectionBar>
      {review.isSheetOpen ? (
        <Suspense fallback={null}>
          <ReviewSheet
            rows={items}
            selection={selection}
            note={review.comment}
            onNote={review.setComment}
            onClose={() => {
              review.closeSheet()
              focusIfLost(() => pane.current)
            }}
          />
        </Suspense>
      ) : null}
    </div>
  )
}
