import { Effect, Exit } from "effect"
import { Atom } from "effect/reactivity"
import { useEffect, useEffectEvent, useRef, useState } from "react"
import type { FeedbackDetail, FeedbackRecord } from "../../../domain/tasks/Feedback.ts"
import type { FeedbackId } from "../../../domain/Ids.ts"
import { Link, navigate } from "../../app/router.tsx"
import { TaskPageTitle } from "../../app/TaskPageTitle.tsx"
import { refresh } from "../../state/atoms.ts"
import { refreshAfterFeedbackDeletion, refreshAfterReview } from "../../state/feedback.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useKeptText } from "../../state/keptWork.ts"
import { useCan, useSession } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { Diff } from "../../ui/Diff.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { notUndoneText } from "../../ui/Failure.ts"
import { CopyRecord } from "../../ui/CopyRecord.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { CommentForm } from "../../ui/CommentForm.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { plainLine } from "../../ui/plainLine.ts"
import { summarizeJson } from "../../ui/summarizeJson.ts"
import { showToast } from "../../ui/Toasts.tsx"
import { useArmed } from "../../ui/reading/useReading.ts"
import { useAction } from "../../ui/useAction.ts"
import { useKeyboardShortcuts } from "../../ui/useKeyboardShortcuts.ts"
import { answeredBy } from "../runs/answeredBy.ts"
import { feedbackStatuses } from "./feedbackStatuses.ts"
import { GivenBy } from "./GivenBy.tsx"
import { FeedbackComment, NotCounted, ScoreLabel } from "./Judgement.tsx"
import { judgementText } from "./scoreText.ts"

export type ReviewVerdict = "stage" | "reject"

const detailAtom = Atom.family((id: FeedbackId) => Atom.make(apiClient.feedback.get({ params: { id } })))

interface ReviewProps {
  readonly id: FeedbackId
  /** Whether its keys review it. They review the selected entries while there are any. */
  readonly hasKeys: boolean
  readonly onReviewed: () => void
  readonly onBack: () => void
}

/** One feedback entry: the run's input, its answer beside the correction, and the review form. */
export const Review = (props: ReviewProps) => {
  const atom = detailAtom(props.id)
  return <AsyncContent atom={atom}>{(detail) => <LoadedFeedback {...props} detail={detail} />}</AsyncContent>
}

/** The characters of a run's input in a message about a correction of it. */
const MAX_NAME = 60

const done = {
  stage: "Correction staged",
  unstage: "Staging undone",
  reject: "Correction rejected"
} as const

/** Makes a correction that was just staged pending again, and opens it. */
const undoStaging = async ({ id, status: _, ...record }: FeedbackRecord): Promise<void> => {
  const exit = await Effect.runPromiseExit(apiClient.feedback.unstage({ params: { id } }))
  refresh(detailAtom(id))
  refreshAfterReview({ ...record, status: "staged" })
  if (Exit.isSuccess(exit)) {
    navigate(`/feedback/${id}`, { replace: true })
    showToast(done.unstage)
  } else {
    showToast(notUndoneText(exit.cause))
  }
}

const LoadedFeedback = ({
  detail,
  hasKeys,
  id,
  onBack,
  onReviewed
}: ReviewProps & { readonly detail: FeedbackDetail }) => {
  const can = useCan()
  const { key } = useSession()
  const review = useAction((given: ReviewVerdict | "unstage", note: string) =>
    Effect.tap(
      given === "stage"
        ? apiClient.feedback.stage({ params: { id } })
        : given === "unstage"
          ? apiClient.feedback.unstage({ params: { id } })
          : apiClient.feedback.reject({ params: { id }, payload: { note: note === "" ? null : note } }),
      (record) =>
        Effect.sync(() => {
          refresh(detailAtom(id))
          refreshAfterReview(record)
        })
    )
  )
  const [verdict, setVerdict] = useState<ReviewVerdict>()
  const keptNote = useKeptText(`note ${id}`)
  const isReviewable = detail.status === "pending" && can("feedback.write")
  const takesKeys = useArmed() && hasKeys && isReviewable && verdict === undefined
  useKeyboardShortcuts({
    s: takesKeys ? () => setVerdict("stage") : undefined,
    r: takesKeys ? () => setVerdict("reject") : undefined,
    Escape: verdict === undefined ? undefined : () => setVerdict(undefined)
  })
  const run = async (given: ReviewVerdict | "unstage", note: string) => {
    const record = await review.run(given, note)
    setVerdict(undefined)
    if (record === undefined) return
    keptNote.forget()
    showToast(
      `${done[given]}: ${plainLine(summarizeJson(detail.input).join(" · "), MAX_NAME)}`,
      given === "stage" ? { label: "Undo", act: () => void undoStaging(record) } : undefined
    )
    // A correction that is pending again waits here for the next verdict.
    if (given !== "unstage") onReviewed()
  }
  return (
    <article className="approval" aria-labelledby="feedback-title">
      <TaskPageTitle record={judgementText(detail)} task_id={detail.task_id} />
      <Button small kind="bare" onClick={onBack}>
        ← All feedback
      </Button>
      <header className="approval-head">
        <div>
          <h2 id="feedback-title">
            {judgementText(detail)} · <GivenBy record={detail} />
          </h2>
          <p className="quiet">
            <ScoreLabel record={detail} /> <NotCounted record={detail} />{" "}
            <AbsoluteTime time={detail.created_at} />
          </p>
          <CopyRecord id={id} of="feedback" path={`/v1/feedback/${id}`} />
        </div>
        {detail.created_by.id === key.id && detail.withdrawn_at === null && can("feedback.write") ? (
          <ConfirmButton
            kind="plain"
            label="Withdraw"
            title="Withdraw your feedback?"
            act={() => apiClient.feedback.withdraw({ params: { id } })}
            onDone={(record) => {
              refresh(detailAtom(id))
              refreshAfterReview(record)
              showToast("Feedback withdrawn")
            }}
          >
            <p>
              It is not counted any more, and its correction is not promoted. You can give feedback again.
            </p>
          </ConfirmButton>
        ) : null}
        {can("data.delete") ? (
          <ConfirmButton
            label="Delete"
            title="Delete this feedback?"
            act={() => apiClient.feedback.remove({ params: { id } })}
            onDone={() => {
              refreshAfterFeedbackDeletion(detail)
              onReviewed()
              showToast("Feedback deleted")
            }}
          >
            <p>
              {detail.status === "promoted"
                ? "The example that its correction became is erased from every dataset version. "
                : ""}
              The run stays. This cannot be undone.
            </p>
          </ConfirmButton>
        ) : null}
      </header>
      <FailureNotice failure={review.failure}>
        {review.failure?.code === "FEEDBACK_NOT_PENDING" ? (
          <Button small onClick={() => refresh(detailAtom(id))}>
            Reload
          </Button>
        ) : undefined}
      </FailureNotice>
      {detail.redaction_warning === undefined ? null : (
        <p className="notice warn">
          <strong>Redacted. </strong>
          <UntrustedText text={detail.redaction_warning} />
        </p>
      )}
      {detail.comment === null ? null : (
        <section aria-label="Comment">
          <h3>Comment</h3>
          <FeedbackComment record={detail} />
        </section>
      )}
      {detail.reviewed_at === null ? null : (
        <div className="notice">
          <p>
            {feedbackStatuses[detail.status][1]}
            {detail.reviewed_by === null ? null : (
              <>
                {" by "}
                <UntrustedText text={detail.reviewed_by.name} />
              </>
            )}{" "}
            · <AbsoluteTime time={detail.reviewed_at} />
          </p>
          {detail.review_note === null ? null : (
            <blockquote>
              <UntrustedText text={detail.review_note} />
            </blockquote>
          )}
          {detail.dataset_id === null ? null : (
            <p>
              <Link to={`/datasets/${detail.dataset_id}`}>View dataset version</Link>
            </p>
          )}
        </div>
      )}
      <section aria-label="Input">
        <h3>Input</h3>
        <JsonTree label="Input" value={detail.input} />
      </section>
      <section aria-label="Answer and correction">
        <h3>{detail.correction === null ? "Answer" : "Answer and correction"}</h3>
        {detail.correction === null ? (
          <JsonTree label="Answer" value={detail.answer ?? undefined} />
        ) : (
          <Diff
            before={detail.answer}
            after={detail.correction}
            beforeTitle="Answer"
            afterTitle="Correction"
          />
        )}
      </section>
      <p className="quiet small">
        Run{" "}
        {can("runs.read") ? (
          <Link to={`/runs/${detail.inference_log_id}`}>
            <span className="id">{detail.inference_log_id}</span>
          </Link>
        ) : (
          <span className="id">{detail.inference_log_id}</span>
        )}
        , answered by <UntrustedText text={answeredBy(detail.run)} />
      </p>
      {isReviewable ? (
        <ReviewForm
          note={keptNote.work}
          onNote={keptNote.setWork}
          armed={takesKeys}
          verdict={verdict}
          fix={
            detail.correction !== null && can("runs.read")
              ? `/runs/${detail.inference_log_id}?fix=${id}`
              : undefined
          }
          pending={review.pending}
          onVerdict={setVerdict}
          onSubmit={run}
        />
      ) : null}
      {detail.status === "staged" && can("feedback.write") ? (
        <div className="decide">
          <Button pending={review.pending} onClick={() => void run("unstage", "")}>
            Undo staging
          </Button>
        </div>
      ) : null}
    </article>
  )
}

const ReviewForm = ({
  armed,
  fix,
  note,
  onNote,
  onSubmit,
  onVerdict,
  pending,
  verdict
}: {
  readonly armed: boolean
  /** Where the correction is corrected; undefined: nowhere. */
  readonly fix: string | undefined
  readonly verdict: ReviewVerdict | undefined
  readonly note: string
  readonly onNote: (note: string) => void
  readonly pending: boolean
  readonly onVerdict: (verdict: ReviewVerdict | undefined) => void
  readonly onSubmit: (verdict: ReviewVerdict, note: string) => Promise<void>
}) => {
  const buttons = useRef<HTMLDivElement>(null)
  const isOpen = verdict === "reject"
  const wasOpen = useRef(false)
  useEffect(() => {
    // The field that had the focus is gone.
    if (wasOpen.current && !isOpen) buttons.current?.querySelector("button")?.focus()
    wasOpen.current = isOpen
  }, [isOpen])
  const stage = useEffectEvent(() => void onSubmit("stage", ""))
  useEffect(() => {
    // Staging takes no note, changes no dataset before a promotion and can be undone, so it needs no confirmation.
    if (verdict === "stage") stage()
  }, [verdict])
  if (!isOpen) {
    return (
      <div ref={buttons} className="decide">
        <Button
          kind="good"
          pending={pending}
          aria-keyshortcuts={armed ? "s" : undefined}
          onClick={() => onVerdict("stage")}
        >
          Stage <kbd>s</kbd>
        </Button>
        <Button kind="bad" aria-keyshortcuts={armed ? "r" : undefined} onClick={() => onVerdict("reject")}>
          Reject <kbd>r</kbd>
        </Button>
        {fix === undefined ? null : (
          <Link className="button" to={fix}>
            Fix and stage
          </Link>
        )}
      </div>
    )
  }
  return (
    <CommentForm
      label="Note to the submitter"
      action="Reject"
      kind="bad"
      pending={pending}
      comment={note}
      onChange={onNote}
      onBack={() => onVerdict(undefined)}
      onSubmit={(text) => void onSubmit("reject", text)}
    />
  )
}
