import { Effect, Exit, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { useState } from "react"
import type { FeedbackRecord, Score } from "../../../domain/tasks/Feedback.ts"
import { FeedbackId, TraceId } from "../../../domain/Ids.ts"
import type { RunRecord } from "../../../domain/tasks/Run.ts"
import { usePageTitle } from "../../app/PageTitle.tsx"
import { Link, navigate, useQueryParameter } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { apiClient } from "../../state/apiClient.ts"
import { refreshAfterReview } from "../../state/feedback.ts"
import { useHasKeptWork } from "../../state/keptWork.ts"
import { taskAtom } from "../../state/tasks.ts"
import { refreshAfterRunDeletion, refreshAfterRunReview, runAtom, runFeedbackAtom } from "../../state/runs.ts"
import { useCan } from "../../state/session.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { CopyButton } from "../../ui/CopyButton.tsx"
import { CopyRecord } from "../../ui/CopyRecord.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { notUndoneText } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { summarizeJson } from "../../ui/summarizeJson.ts"
import { useArmed } from "../../ui/reading/useReading.ts"
import { useAction } from "../../ui/useAction.ts"
import { useKeyboardShortcuts } from "../../ui/useKeyboardShortcuts.ts"
import { feedbackStatuses } from "../feedback/feedbackStatuses.ts"
import { GivenBy } from "../feedback/GivenBy.tsx"
import { FeedbackComment, NotCounted, ScoreLabel } from "../feedback/Judgement.tsx"
import { judgementText } from "../feedback/scoreText.ts"
import { ReleaseLink } from "../tasks/ReleaseLink.tsx"
import { TaskLink } from "../tasks/TaskLink.tsx"
import { answeredBy } from "./answeredBy.ts"
import { CorrectionForm, correctionWorkName } from "./CorrectionForm.tsx"

const isTraceId = Schema.is(TraceId)
const isFeedbackId = Schema.is(FeedbackId)

/** One run: input, answer, what answered, the feedback on it, and a form that reviews it. */
export default function Run({ params }: PageProps) {
  const id = params["id"]
  return isTraceId(id) ? <LoadedRun id={id} /> : <EmptyState title="Run not found" />
}

const LoadedRun = ({ id }: { readonly id: TraceId }) => {
  return <AsyncContent atom={runAtom(id)}>{(run) => <RunView run={run} />}</AsyncContent>
}

const RunView = ({ run }: { readonly run: RunRecord }) => {
  const can = useCan()
  usePageTitle(run.trace_id.slice(0, 8))
  return (
    <div className="stack">
      <p>
        <Link to="/runs">← All runs</Link>
      </p>
      <PageHeader
        title={<RunTitle run={run} />}
        aside={
          <>
            {run.awaits_review ? <Badge tone="wait">Awaits review</Badge> : null}
            {can("tasks.write") && can("tasks.read") ? (
              <Link className="button" to={`/tasks/${run.task_id}/playground?run=${run.trace_id}`}>
                Open in playground
              </Link>
            ) : null}
            {can("data.delete") ? (
              <ConfirmButton
                small={false}
                label="Delete"
                title="Delete this run?"
                act={() => apiClient.runs.remove({ params: { id: run.trace_id } })}
                onDone={() => {
                  refreshAfterRunDeletion(run.task_id)
                  navigate("/runs")
                  showToast("Run deleted")
                }}
              >
                <p>
                  The feedback on it is deleted too, and the examples that corrections of it became are erased
                  from every dataset version. This cannot be undone.
                </p>
              </ConfirmButton>
            ) : null}
          </>
        }
      >
        <CopyRecord id={run.trace_id} of="run" path={`/v1/runs/${run.trace_id}`} />
      </PageHeader>
      <div className="two-columns">
        <div className="stack">
          <section className="card padded stack">
            <h2>Input</h2>
            <JsonTree label="Input" value={run.input} />
          </section>
          <section className="card padded stack">
            <h2>Answer</h2>
            {run.failure === null ? (
              <JsonTree label="Answer" value={run.answer ?? undefined} />
            ) : (
              <p>
                <UntrustedText text={run.failure} />
              </p>
            )}
          </section>
          {can("feedback.write") ? <ReviewForm run={run} /> : null}
          {can("feedback.read") ? <GivenFeedback id={run.trace_id} /> : null}
        </div>
        <Properties run={run} />
      </div>
    </div>
  )
}

/** What was asked, as far as a title has room, since an ID tells people nothing. */
const RunTitle = ({ run }: { readonly run: RunRecord }) => (
  <>
    <span className="quiet">Run:</span> <UntrustedText text={summarizeJson(run.input)[0] ?? "no input"} />
  </>
)

const Properties = ({ run }: { readonly run: RunRecord }) => {
  const can = useCan()
  return (
    <aside className="card padded stack">
      <h2>Details</h2>
      <dl className="facts">
        <div>
          <dt>Task</dt>
          <dd>
            <TaskLink id={run.task_id} />
          </dd>
        </div>
        <div>
          <dt>Answered by</dt>
          <dd>
            <UntrustedText text={answeredBy(run)} />
          </dd>
        </div>
        <div>
          <dt>{run.source === "logged" ? "Live release" : "Release"}</dt>
          <dd>
            <ReleaseLink task={run.task_id} id={run.release_id} />
            <CopyButton label="Copy the release ID" text={run.release_id} />
          </dd>
        </div>
        <div>
          <dt>Dataset</dt>
          <dd>
            {run.dataset_id === null ? (
              "none"
            ) : can("datasets.read") ? (
              <Link to={`/datasets/${run.dataset_id}`}>View version</Link>
            ) : (
              <span className="id">{run.dataset_id}</span>
            )}
          </dd>
        </div>
        <div>
          <dt>Tokens</dt>
          <dd>
            {run.usage === null
              ? "unknown"
              : `${tokens(run.usage.input_tokens)} in, ${tokens(run.usage.output_tokens)} out`}
          </dd>
        </div>
        <div>
          <dt>Duration</dt>
          <dd>{run.duration_ms === null ? "unknown" : `${run.duration_ms.toLocaleString("en")} ms`}</dd>
        </div>
        {run.session_id === null || !can("sessions.read") ? null : (
          <div>
            <dt>Session</dt>
            <dd>
              <Link to={`/sessions/${run.session_id}`}>View session</Link>
            </dd>
          </div>
        )}
        <div>
          <dt>Run by</dt>
          <dd>
            <UntrustedText text={run.created_by.name} /> · <AbsoluteTime time={run.created_at} />
          </dd>
        </div>
      </dl>
      <h3>Metadata</h3>
      <JsonTree label="Metadata" value={run.metadata} />
    </aside>
  )
}

/** The newest feedback on the run. */
const GivenFeedback = ({ id }: { readonly id: TraceId }) => {
  return (
    <section className="card padded stack">
      <h2>Feedback</h2>
      <AsyncContent atom={runFeedbackAtom(id)}>
        {({ feedback }) =>
          feedback.length === 0 ? (
            <p className="quiet">None yet.</p>
          ) : (
            <ul className="stack">
              {feedback.map((record) => (
                <li key={record.id}>
                  <Link to={`/feedback/${record.id}`}>{judgementText(record)}</Link>{" "}
                  <ScoreLabel record={record} /> <NotCounted record={record} />{" "}
                  <Badge tone={feedbackStatuses[record.status][0]}>
                    {feedbackStatuses[record.status][1]}
                  </Badge>{" "}
                  by <GivenBy record={record} /> · <AbsoluteTime time={record.created_at} />
                  <FeedbackComment record={record} />
                </li>
              ))}
            </ul>
          )
        }
      </AsyncContent>
    </section>
  )
}

/** Scores the answer, corrects it, or dismisses the review. */
const ReviewForm = ({ run }: { readonly run: RunRecord }) => {
  const { task_id, trace_id } = run
  const can = useCan()
  const hasKept = useHasKeptWork(correctionWorkName(run))
  const wanted = useQueryParameter("fix")
  const fix = isFeedbackId(wanted) && can("feedback.read") ? wanted : undefined
  const [isCorrecting, setCorrecting] = useState(hasKept || fix !== undefined)
  const give = useAction((score: Score) =>
    apiClient.feedback.create({ payload: { inference_log_id: trace_id, score } })
  )
  const confirm = useAction(() => apiClient.feedback.confirm({ params: { id: trace_id }, headers: {} }))
  const dismiss = useAction(() => apiClient.runs.dismiss({ params: { id: trace_id } }))
  const judge = async (score: Score) => {
    const record = await give.run(score)
    if (record === undefined) return
    refreshAfterRunReview(task_id, trace_id)
    refreshAfterReview(record)
    showToast(score === 1 ? "Marked as correct" : "Marked as incorrect", {
      label: "Undo",
      act: () => void undoScore(run, record)
    })
  }
  const confirmAnswer = async () => {
    const record = await confirm.run()
    if (record === undefined) return
    refreshAfterRunReview(task_id, trace_id)
    refreshAfterReview(record)
    showToast(
      record.status === "staged"
        ? "Marked as correct; the next promotion adds the example"
        : "Marked as correct; the example waits for another reviewer",
      { label: "Undo", act: () => void undoScore(run, record) }
    )
  }
  const dismissReview = async () => {
    if ((await dismiss.runResult()) === undefined) return
    refreshAfterRunReview(task_id, trace_id)
    showToast("Review dismissed")
  }
  const isArmed = useArmed() && !isCorrecting
  const canScore = run.failure === null
  useKeyboardShortcuts({
    c: isArmed && canScore ? () => void judge(1) : undefined,
    a: isArmed && canScore ? () => void confirmAnswer() : undefined,
    i: isArmed && canScore ? () => void judge(-1) : undefined,
    e: isArmed ? () => setCorrecting(true) : undefined
  })
  return (
    <section className="card padded stack" aria-label="Your feedback">
      <h2>Your feedback</h2>
      <FailureNotice failure={give.failure ?? confirm.failure ?? dismiss.failure} />
      {isCorrecting ? (
        <Correction
          run={run}
          fix={fix}
          onClose={() => {
            setCorrecting(false)
            if (fix !== undefined) navigate(`/runs/${trace_id}`, { replace: true })
          }}
        />
      ) : (
        <div className="decide-buttons">
          {canScore ? (
            <>
              <Button
                kind="good"
                pending={give.pending}
                aria-keyshortcuts={isArmed ? "c" : undefined}
                onClick={() => void judge(1)}
              >
                Correct <kbd>c</kbd>
              </Button>
              <Button
                pending={confirm.pending}
                aria-keyshortcuts={isArmed ? "a" : undefined}
                onClick={() => void confirmAnswer()}
              >
                Correct, add as example <kbd>a</kbd>
              </Button>
              <Button
                kind="bad"
                pending={give.pending}
                aria-keyshortcuts={isArmed ? "i" : undefined}
                onClick={() => void judge(-1)}
              >
                Incorrect <kbd>i</kbd>
              </Button>
            </>
          ) : null}
          <Button aria-keyshortcuts={isArmed ? "e" : undefined} onClick={() => setCorrecting(true)}>
            Correct the answer <kbd>e</kbd>
          </Button>
          {run.awaits_review ? (
            <Button pending={dismiss.pending} onClick={() => void dismissReview()}>
              Dismiss
            </Button>
          ) : null}
        </div>
      )}
    </section>
  )
}

const feedbackAtom = Atom.family((id: FeedbackId) => Atom.make(apiClient.feedback.get({ params: { id } })))

interface CorrectionProps {
  readonly run: RunRecord
  /** The correction of a submitter to begin with. */
  readonly fix: FeedbackId | undefined
  readonly onClose: () => void
}

/** The correction's form, once the task's schema is known; for keys that cannot read it, as JSON. */
const Correction = (props: CorrectionProps) =>
  useCan()("tasks.read") ? (
    <CorrectionOfTask {...props} />
  ) : (
    <CorrectionBySchema {...props} schema={undefined} />
  )

const CorrectionOfTask = (props: CorrectionProps) => {
  const atom = taskAtom(props.run.task_id)
  return (
    <AsyncContent atom={atom}>
      {({ answer_schema }) => <CorrectionBySchema {...props} schema={answer_schema} />}
    </AsyncContent>
  )
}

const CorrectionBySchema = ({
  fix,
  onClose,
  run,
  schema
}: CorrectionProps & { readonly schema: Schema.Json | undefined }) =>
  fix === undefined ? (
    <CorrectionForm run={run} schema={schema} onClose={onClose} />
  ) : (
    <FixOfCorrection run={run} fix={fix} schema={schema} onClose={onClose} />
  )

/** The form with a submitter's correction in it, if that still waits for review and is of this run. */
const FixOfCorrection = ({
  fix,
  onClose,
  run,
  schema
}: CorrectionProps & { readonly fix: FeedbackId; readonly schema: Schema.Json | undefined }) => {
  const atom = feedbackAtom(fix)
  return (
    <AsyncContent atom={atom}>
      {(record) => {
        const { correction, inference_log_id, status } = record
        const isOpen = status === "pending" && inference_log_id === run.trace_id
        return isOpen && correction !== null ? (
          <CorrectionForm run={run} schema={schema} replaces={{ record, correction }} onClose={onClose} />
        ) : (
          <CorrectionForm run={run} schema={schema} onClose={onClose} />
        )
      }}
    </AsyncContent>
  )
}

/** Withdraws a score that was just given. */
const undoScore = async (run: RunRecord, record: FeedbackRecord): Promise<void> => {
  const exit = await Effect.runPromiseExit(apiClient.feedback.withdraw({ params: { id: record.id } }))
  refreshAfterReview(record)
  refreshAfterRunReview(run.task_id, run.trace_id)
  showToast(Exit.isSuccess(exit) ? "Feedback withdrawn" : notUndoneText(exit.cause))
}

const tokens = (count: number | null): string => (count === null ? "unknown" : count.toLocaleString("en"))
