import { Effect, Schema } from "effect"
import { useState } from "react"
import type { PromotionPreview } from "../../../api/Feedback.ts"
import { type FeedbackId, TaskId } from "../../../domain/Ids.ts"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh } from "../../state/atoms.ts"
import { promotionPreviewAtom, refreshAfterPromotion } from "../../state/feedback.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { comparisonsAtom, datasetsAtom, taskAtom } from "../../state/tasks.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Checkbox } from "../../ui/Checkbox.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"
import { DatasetLink } from "../tasks/DatasetLink.tsx"
import { PromotionConflict, isPromotionConflict } from "./PromotionConflict.tsx"

/** The most superseded corrections that are listed. */
const SHOWN_SUPERSEDED = 100

const isTaskId = Schema.is(TaskId)

/** The preview of promoting a task's staged corrections into a dataset version, and the button that promotes them. */
export default function Promotion({ params }: PageProps) {
  const id = params["task"]
  return isTaskId(id) ? <LoadedPromotion task={id} /> : <EmptyState title="Task not found" />
}

const LoadedPromotion = ({ task }: { readonly task: TaskId }) => {
  return (
    <AsyncContent atom={promotionPreviewAtom(task)}>
      {(preview) => <Preview task={task} preview={preview} />}
    </AsyncContent>
  )
}

const Preview = ({ preview, task }: { readonly task: TaskId; readonly preview: PromotionPreview }) => {
  const can = useCan()
  const [created, setCreated] = useState<{
    readonly id: string
    readonly version: number
    readonly count: number
  }>()
  const [left, setLeft] = useState<ReadonlySet<FeedbackId>>(new Set())
  const chosen = preview.corrections.filter(({ id }) => !left.has(id)).map(({ id }) => id)
  const isSelection = chosen.length < preview.corrections.length
  const count = isSelection ? chosen.length : preview.correction_count
  const promote = useAction(() => {
    const params = { id: task }
    const { base_dataset_id, feedback_revision } = preview
    const [first, ...others] = chosen
    if (!isSelection || first === undefined) {
      const payload = { base_dataset_id, expected_feedback_revision: feedback_revision }
      return apiClient.feedback.promote({ params, payload })
    }
    // The content of a correction never changes, so the revision of the shown ones can be read now.
    const feedback_ids = [first, ...others] as const
    return Effect.flatMap(
      apiClient.feedback.previewSelection({ params, query: { limit: 1 }, payload: { feedback_ids } }),
      (selected) =>
        apiClient.feedback.promote({
          params,
          payload: { base_dataset_id, expected_feedback_revision: selected.feedback_revision, feedback_ids }
        })
    )
  })
  const run = async () => {
    const done = await promote.run()
    if (done === undefined) return
    setCreated({ id: done.dataset.id, version: done.dataset.version, count: done.promoted.length })
    refreshAfterPromotion(task)
    refresh(taskAtom(task))
    refresh(datasetsAtom(task))
  }
  const reload = () => {
    promote.reset()
    refresh(promotionPreviewAtom(task))
  }
  return (
    <div className="stack">
      <p>
        <Link to={`/feedback/task/${task}`}>← Task feedback</Link>
      </p>
      <PageHeader
        title="Promote corrections"
        aside={
          can("datasets.write") && preview.correction_count > 0 ? (
            <Button
              kind="primary"
              pending={promote.pending}
              disabled={isPromotionConflict(promote.failure) || count === 0}
              onClick={() => void run()}
            >
              Promote {count === 1 ? "1 correction" : `${count} corrections`}
            </Button>
          ) : null
        }
      >
        Creates the next dataset version from the staged corrections. A live release keeps its dataset
        version; the next comparison uses the new one.
      </PageHeader>
      {created === undefined ? null : (
        <div className="notice" role="status">
          <p className="notice-title">
            {created.count === 1 ? "1 correction" : `${created.count} corrections`} promoted
          </p>
          <p>
            <Link to={`/datasets/${created.id}`}>Version {created.version}</Link> is now the newest version.
          </p>
          {can("tasks.write") ? <CompareNow task={task} /> : null}
        </div>
      )}
      {isPromotionConflict(promote.failure) ? (
        <PromotionConflict failure={promote.failure} onReload={reload} />
      ) : (
        <FailureNotice failure={promote.failure} />
      )}
      {preview.correction_count === 0 ? (
        <div className="card">
          <EmptyState title="No staged corrections">
            Stage pending corrections on the feedback page first.
          </EmptyState>
        </div>
      ) : (
        <>
          <div className="figures">
            <Figure value={preview.examples_added} text="examples added" />
            <Figure value={preview.examples_replaced} text="examples replaced" />
            <Figure
              value={preview.superseded_count}
              text="superseded by a later correction of the same input"
            />
          </div>
          {preview.superseded.length === 0 ? null : (
            <details>
              <summary>Superseded corrections</summary>
              <ul>
                {preview.superseded.slice(0, SHOWN_SUPERSEDED).map(({ id, superseded_by }) => (
                  <li key={id} className="small">
                    <Link className="id" to={`/feedback/${id}`}>
                      {id}
                    </Link>{" "}
                    by{" "}
                    <Link className="id" to={`/feedback/${superseded_by}`}>
                      {superseded_by}
                    </Link>
                  </li>
                ))}
              </ul>
            </details>
          )}
          <p className="quiet">
            {preview.base_dataset_id === null ? (
              "The task has no dataset yet. This promotion creates version 1, which the live release uses from then on."
            ) : (
              <>
                Based on dataset <DatasetLink task={task} id={preview.base_dataset_id} />.
              </>
            )}
          </p>
          <h2 className="visually-hidden">Corrections</h2>
          <ul className="cards">
            {preview.corrections.map((correction) => (
              <li key={correction.id} className="card padded stack">
                <div className="change-head">
                  <p>
                    <Link to={`/feedback/${correction.id}`}>
                      Correction by <UntrustedText text={correction.created_by.name} />
                    </Link>
                    {correction.reviewed_by === null ? null : (
                      <span className="quiet">
                        , staged by <UntrustedText text={correction.reviewed_by.name} />
                      </span>
                    )}
                  </p>
                  <Checkbox
                    className="small"
                    checked={!left.has(correction.id)}
                    onChange={(isChecked) => {
                      const others = new Set(left)
                      if (isChecked) others.delete(correction.id)
                      else others.add(correction.id)
                      setLeft(others)
                    }}
                  >
                    Promote
                  </Checkbox>
                  {correction.redaction_warning === undefined ? null : <Badge tone="wait">Redacted</Badge>}
                </div>
                <div className="side-by-side">
                  <div>
                    <h3>Input</h3>
                    <JsonTree label="Input" value={correction.input} />
                  </div>
                  <div>
                    <h3>Expected answer</h3>
                    <JsonTree label="Expected answer" value={correction.correction} />
                  </div>
                </div>
              </li>
            ))}
          </ul>
          {preview.correction_count > preview.corrections.length ? (
            <p className="quiet">
              Showing the newest {preview.corrections.length} of{" "}
              {preview.correction_count.toLocaleString("en")}.{" "}
              {isSelection ? "Only the selected ones are promoted." : "All of them are promoted."}
            </p>
          ) : null}
        </>
      )}
    </div>
  )
}

/** The next step after a promotion: a comparison on the new version. */
const CompareNow = ({ task }: { readonly task: TaskId }) => {
  const compare = useAction(() => apiClient.comparisons.create({ params: { id: task }, payload: {} }))
  return (
    <>
      <p>
        Does the task answer better with it? A comparison runs the working copy and the live release on it.
      </p>
      <div className="notice-actions">
        <Button
          small
          kind="primary"
          pending={compare.pending}
          onClick={() =>
            void compare.run().then((started) => {
              if (started === undefined) return undefined
              refresh(comparisonsAtom(task))
              navigate(`/comparisons/${started.comparison.id}`)
              return undefined
            })
          }
        >
          Compare now
        </Button>
      </div>
      <FailureNotice failure={compare.failure} />
    </>
  )
}

const Figure = ({ text, value }: { readonly value: number; readonly text: string }) => (
  <div className="card figure">
    <strong>{value.toLocaleString("en")}</strong>
    <span className="quiet">{text}</span>
  </div>
)
