import { Result, Schema } from "effect"
import { useState } from "react"
import type { NewFeedback } from "../../../api/Feedback.ts"
import { TraceId } from "../../../domain/Ids.ts"
import type { RunRecord } from "../../../domain/tasks/Run.ts"
import { usePageTitle } from "../../app/PageTitle.tsx"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { refreshAfterRunDeletion, refreshAfterRunReview, runAtom, runFeedbackAtom } from "../../state/runs.ts"
import { useCan } from "../../state/session.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { JsonField } from "../../ui/JsonField.tsx"
import { formatJson, parseJsonObject } from "../../ui/jsonText.ts"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"
import { feedbackStatuses } from "../feedback/feedbackStatuses.ts"
import { GivenBy } from "../feedback/GivenBy.tsx"
import { FeedbackComment, ScoreLabel } from "../feedback/Judgement.tsx"
import { judgementText } from "../feedback/scoreText.ts"
import { answeredBy } from "./answeredBy.ts"

const isTraceId = Schema.is(TraceId)

/** One run: input, answer, what answered, the feedback on it, and a form that reviews it. */
export default function Run({ params }: PageProps) {
  const id = params["id"]
  return isTraceId(id) ? <LoadedRun id={id} /> : <EmptyState title="Run not found" />
}

const LoadedRun = ({ id }: { readonly id: TraceId }) => {
  const result = useAtomValue(runAtom(id))
  return (
    <AsyncContent result={result} atom={runAtom(id)}>
      {(run) => <RunView run={run} />}
    </AsyncContent>
  )
}

const RunView = ({ run }: { readonly run: RunRecord }) => {
  const can = useCan()
  usePageTitle(run.trace_id.slice(0, 8))
  return (
    <div className="stack">
      <p>
        <Link to={`/tasks/${run.task_id}/runs`}>← Task runs</Link>
      </p>
      <PageHeader
        title="Run"
        aside={
          <>
            {run.awaits_review ? <Badge tone="wait">Awaits review</Badge> : null}
            {can("data.delete") ? (
              <ConfirmButton
                small={false}
                label="Delete"
                title="Delete this run?"
                act={() => apiClient.runs.remove({ params: { trace_id: run.trace_id } })}
                onDone={() => {
                  refreshAfterRunDeletion(run.task_id)
                  navigate(`/tasks/${run.task_id}/runs`)
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
        <span className="id">{run.trace_id}</span>
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
          {can("feedback.read") ? <GivenFeedback id={run.trace_id} /> : null}
          {can("feedback.write") ? <ReviewForm run={run} /> : null}
        </div>
        <Properties run={run} />
      </div>
    </div>
  )
}

const Properties = ({ run }: { readonly run: RunRecord }) => {
  const can = useCan()
  return (
    <aside className="card padded stack">
      <h2>Details</h2>
      <dl className="facts">
        <div>
          <dt>Answered by</dt>
          <dd>
            <UntrustedText text={answeredBy(run)} />
          </dd>
        </div>
        <div>
          <dt>{run.source === "logged" ? "Live release" : "Release"}</dt>
          <dd>
            <Link to={`/tasks/${run.task_id}/releases`}>
              <span className="id">{run.release_id}</span>
            </Link>
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
        {run.session_id === null ? null : (
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
  const result = useAtomValue(runFeedbackAtom(id))
  return (
    <section className="card padded stack">
      <h2>Feedback</h2>
      <AsyncContent result={result} atom={runFeedbackAtom(id)}>
        {({ feedback }) =>
          feedback.length === 0 ? (
            <p className="quiet">None yet.</p>
          ) : (
            <ul className="stack">
              {feedback.map((record) => (
                <li key={record.id}>
                  <Link to={`/feedback/${record.id}`}>{judgementText(record)}</Link>{" "}
                  <ScoreLabel record={record} />{" "}
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
  const [correction, setCorrection] = useState<string>()
  const give = useAction((payload: Pick<NewFeedback, "score" | "correction">) =>
    apiClient.feedback.create({ payload: { inference_log_id: trace_id, ...payload } })
  )
  const dismiss = useAction(() => apiClient.runs.dismiss({ params: { trace_id } }))
  const done = (text: string) => {
    setCorrection(undefined)
    refreshAfterRunReview(task_id, trace_id)
    showToast(text)
  }
  const submit = async (payload: Pick<NewFeedback, "score" | "correction">) => {
    if ((await give.run(payload)) !== undefined) done("Feedback saved")
  }
  const dismissReview = async () => {
    if ((await dismiss.runResult()) !== undefined) done("Review dismissed")
  }
  const submitCorrection = () => {
    const parsed = parseJsonObject(correction ?? "")
    if (Result.isSuccess(parsed)) void submit({ score: -1, correction: parsed.success })
  }
  return (
    <section className="card padded stack">
      <h2>Your feedback</h2>
      <FailureNotice failure={give.failure ?? dismiss.failure} />
      {correction === undefined ? (
        <div className="decide">
          <Button kind="good" pending={give.pending} onClick={() => void submit({ score: 1 })}>
            Correct
          </Button>
          <Button kind="bad" pending={give.pending} onClick={() => void submit({ score: -1 })}>
            Incorrect
          </Button>
          <Button onClick={() => setCorrection(formatJson(run.answer ?? {}))}>Correct the answer</Button>
          {run.awaits_review ? (
            <Button pending={dismiss.pending} onClick={() => void dismissReview()}>
              Dismiss
            </Button>
          ) : null}
        </div>
      ) : (
        <form
          className="stack"
          onSubmit={(event) => {
            event.preventDefault()
            submitCorrection()
          }}
        >
          <JsonField
            label="Right answer"
            hint="Secrets are redacted before it is stored. A reviewer stages it."
            text={correction}
            error={fieldError(give.failure, "correction")}
            onChange={setCorrection}
          />
          <div className="dialog-actions">
            <Button onClick={() => setCorrection(undefined)}>Back</Button>
            <Button kind="primary" type="submit" pending={give.pending}>
              Save correction
            </Button>
          </div>
        </form>
      )}
    </section>
  )
}

const tokens = (count: number | null): string => (count === null ? "unknown" : count.toLocaleString("en"))
