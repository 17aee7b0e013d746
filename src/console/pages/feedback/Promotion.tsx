import { Schema } from "effect"
import { useState } from "react"
import type { PromotionPreview } from "../../../api/Feedback.ts"
import { TaskId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { promotionPreviewAtom, refreshAfterPromotion } from "../../state/feedback.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { datasetsAtom, taskAtom } from "../../state/tasks.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"
import { DatasetLink } from "../tasks/DatasetLink.tsx"
import { PromotionConflict, isPromotionConflict } from "./PromotionConflict.tsx"

/** Superseded corrections that are listed at most. */
const SHOWN_SUPERSEDED = 100

const isTaskId = Schema.is(TaskId)

/** What promoting a task's staged corrections would do, and doing it. */
export default function Promotion({ params }: PageProps) {
  const id = params["task"]
  return isTaskId(id) ? <LoadedPromotion task={id} /> : <EmptyState title="There is no such task" />
}

const LoadedPromotion = ({ task }: { readonly task: TaskId }) => {
  const result = useAtomValue(promotionPreviewAtom(task))
  return (
    <AsyncContent result={result} atom={promotionPreviewAtom(task)}>
      {(preview) => <Preview task={task} preview={preview} />}
    </AsyncContent>
  )
}

const Preview = ({ preview, task }: { readonly task: TaskId; readonly preview: PromotionPreview }) => {
  const can = useCan()
  const [made, setMade] = useState<{
    readonly id: string
    readonly version: number
    readonly count: number
  }>()
  const promote = useAction(() =>
    apiClient.feedback.promote({
      params: { task_id: task },
      payload: {
        base_dataset_id: preview.base_dataset_id,
        expected_feedback_revision: preview.feedback_revision
      }
    })
  )
  const run = async () => {
    const done = await promote.run()
    if (done === undefined) return
    setMade({ id: done.dataset.id, version: done.dataset.version, count: done.promoted.length })
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
        <Link to={`/feedback/task/${task}`}>← Feedback of the task</Link>
      </p>
      <PageHeader
        title="Promotion"
        aside={
          can("datasets.write") && preview.correction_count > 0 ? (
            <Button
              kind="primary"
              pending={promote.pending}
              disabled={isPromotionConflict(promote.failure)}
              onClick={() => void run()}
            >
              Promote{" "}
              {preview.correction_count === 1 ? "one correction" : `${preview.correction_count} corrections`}
            </Button>
          ) : null
        }
      >
        Staged corrections become the next version of the dataset. What is live stays as it is; the next
        comparison uses the new version.
      </PageHeader>
      {made === undefined ? null : (
        <div className="notice" role="status">
          <p className="notice-title">
            {made.count === 1 ? "One correction is" : `${made.count} corrections are`} promoted
          </p>
          <p>
            <Link to={`/datasets/${made.id}`}>Version {made.version}</Link> is the newest now.
          </p>
        </div>
      )}
      {isPromotionConflict(promote.failure) ? (
        <PromotionConflict failure={promote.failure} onReload={reload} />
      ) : (
        <FailureNotice failure={promote.failure} />
      )}
      {preview.correction_count === 0 ? (
        <div className="card">
          <EmptyState title="Nothing is staged">
            Review pending corrections, and stage those that are right.
          </EmptyState>
        </div>
      ) : (
        <>
          <div className="figures">
            <Figure value={preview.examples_added} text="examples added" />
            <Figure value={preview.examples_replaced} text="examples replaced" />
            <Figure value={preview.superseded_count} text="superseded by a later one of the same run" />
          </div>
          {preview.superseded.length === 0 ? null : (
            <details>
              <summary>What is superseded</summary>
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
              "The task has no dataset yet: this makes version 1."
            ) : (
              <>
                On top of <DatasetLink task={task} id={preview.base_dataset_id} /> of the dataset.
              </>
            )}
          </p>
          <ul className="cards">
            {preview.corrections.map((correction) => (
              <li key={correction.id} className="card padded stack">
                <div className="change-head">
                  <p>
                    <Link to={`/feedback/${correction.id}`}>
                      The correction by <UntrustedText text={correction.created_by.name} />
                    </Link>
                    {correction.reviewed_by === null ? null : (
                      <span className="quiet">
                        , staged by <UntrustedText text={correction.reviewed_by.name} />
                      </span>
                    )}
                  </p>
                  {correction.redaction_warning === undefined ? null : <Badge tone="wait">redacted</Badge>}
                </div>
                <div className="side-by-side">
                  <div>
                    <h3>Input</h3>
                    <JsonTree label="Input" value={correction.input} />
                  </div>
                  <div>
                    <h3>Right answer</h3>
                    <JsonTree label="Right answer" value={correction.correction} />
                  </div>
                </div>
              </li>
            ))}
          </ul>
          {preview.correction_count > preview.corrections.length ? (
            <p className="quiet">
              The newest {preview.corrections.length} of {preview.correction_count.toLocaleString("en")} are
              shown; all are promoted together.
            </p>
          ) : null}
        </>
      )}
    </div>
  )
}

const Figure = ({ text, value }: { readonly value: number; readonly text: string }) => (
  <div className="card figure">
    <strong>{value.toLocaleString("en")}</strong>
    <span className="quiet">{text}</span>
  </div>
)
