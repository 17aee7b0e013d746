import { Schema } from "effect"
import { useRef, useState } from "react"
import { type FeedbackRecord, FeedbackStatus } from "../../../domain/tasks/Feedback.ts"
import { FeedbackId, TaskId } from "../../../domain/Ids.ts"
import { Link, navigate, useQueryParameter, withQuery } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { feedbackAtom } from "../../state/feedback.ts"
import { useCan } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { summarizeJson } from "../../ui/summarizeJson.ts"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { focusIfLost, ScrollPane } from "../../ui/ScrollPane.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { useKeyboardShortcuts } from "../../ui/useKeyboardShortcuts.ts"
import { feedbackStatuses } from "./feedbackStatuses.ts"
import { StatusFilter, TaskFilter } from "./Filters.tsx"
import { GivenBy } from "./GivenBy.tsx"
import { ScoreLabel } from "./Judgement.tsx"
import { judgementText } from "./scoreText.ts"
import { Review, type ReviewVerdict } from "./Review.tsx"

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
  const atom = feedbackAtom(filter.status)(filter.task ?? "all")
  const list = useAtomValue(atom)
  useRefreshing(atom, list._tag === "Success" && list.value.items.length === 1)
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
    if (items.length === 0) return
    go(items[Math.min(Math.max(index + by, 0), items.length - 1)]?.id)
  }
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
    if (selected !== undefined && readId === selected && can("feedback.write")) setVerdict(verdict)
  }
  useKeyboardShortcuts({
    j: () => move(1),
    k: () => move(-1),
    s: () => choose("stage"),
    r: () => choose("reject"),
    Escape: () => setVerdict(undefined)
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
                    <Row key={record.id} record={record} selected={record.id === selected} onSelect={go} />
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
                <kbd>j</kbd> next <kbd>k</kbd> previous <kbd>s</kbd> stage <kbd>r</kbd> reject
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
    </div>
  )
}

const Row = ({
  onSelect,
  record,
  selected
}: {
  readonly record: FeedbackRecord
  readonly selected: boolean
  readonly onSelect: (id: FeedbackId) => void
}) => {
  const [tone, status] = feedbackStatuses[record.status]
  return (
    <li>
      <button
        type="button"
        className="decided-row"
        aria-current={selected ? "true" : undefined}
        onClick={() => onSelect(record.id)}
      >
        <span className="row-main">
          <span className="row-said">
            {judgementText(record)}
            {record.correction === null && record.comment === null ? null : (
              <span className="row-content">
                <UntrustedText
                  text={
                    record.correction === null
                      ? (record.comment ?? "")
                      : summarizeJson(record.correction).join(" · ")
                  }
                />
              </span>
            )}
          </span>
          <ScoreLabel record={record} />
          <Badge tone={tone}>{status}</Badge>
        </span>
        <span className="row-more">
          by <GivenBy record={record} /> · <RelativeTime time={record.created_at} />
          {record.redaction_warning === undefined ? null : <Badge tone="wait">Redacted</Badge>}
        </span>
      </button>
    </li>
  )
}
