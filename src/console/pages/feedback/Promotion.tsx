import { Schema } from "effect"
import { useState } from "react"
import type { PromotionPreview } from "../../../api/Feedback.ts"
import { TaskId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { previewAtom, promoted } from "../../state/feedback.ts"
import { service } from "../../state/service.ts"
import { useCan } from "../../state/session.ts"
import { datasetsAtom, taskAtom } from "../../state/tasks.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { Empty } from "../../ui/Empty.tsx"
import { Json } from "../../ui/Json.tsx"
import { Loaded } from "../../ui/Loaded.tsx"
import { PageHead } from "../../ui/PageHead.tsx"
import { Problem } from "../../ui/Problem.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { useAction } from "../../ui/useAction.ts"
import { DatasetLink } from "../tasks/DatasetLink.tsx"
import { Conflict, isConflict } from "./Conflict.tsx"

/** Superseded corrections that are listed at most. */
const SHOWN_SUPERSEDED = 100

const isTaskId = Schema.is(TaskId)

/** What promoting a task's staged corrections would do, and doing it. */
export default function Promotion({ params }: PageProps) {
  const id = params["task"]
  return isTaskId(id) ? <Open task={id} /> : <Empty title="There is no such task" />
}

const Open = ({ task }: { readonly task: TaskId }) => {
  const result = useAtomValue(previewAtom(task))
  return (
    <Loaded result={result} atom={previewAtom(task)}>
      {(preview) => <Preview task={task} preview={preview} />}
    </Loaded>
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
    service.feedback.promote({
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
    promoted(task)
    refresh(taskAtom(task))
    refresh(datasetsAtom(task))
  }
  const reload = () => {
    promote.forget()
    refresh(previewAtom(task))
  }
  return (
    <div className="stack">
      <p>
        <Link to={`/feedback/task/${task}`}>← Feedback of the task</Link>
      </p>
      <PageHead
        title="Promotion"
        aside={
          can("datasets.write") && preview.correction_count > 0 ? (
            <Button
              kind="primary"
              pending={promote.pending}
              disabled={isConflict(promote.failure)}
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
      </PageHead>
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
      {isConflict(promote.failure) ? (
        <Conflict failure={promote.failure} onReload={reload} />
      ) : (
        <Problem failure={promote.failure} />
      )}
      {preview.correction_count === 0 ? (
        <div className="card">
          <Empty title="Nothing is staged">Review pending corrections, and stage those that are right.</Empty>
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
                      The correction by <Safe text={correction.created_by.name} />
                    </Link>
                    {correction.reviewed_by === null ? null : (
                      <span className="quiet">
                        , staged by <Safe text={correction.reviewed_by.name} />
                      </span>
                    )}
                  </p>
                  {correction.redaction_warning === undefined ? null : <Badge tone="wait">redacted</Badge>}
                </div>
                <div className="side-by-side">
                  <div>
                    <h3>Input</h3>
                    <Json label="Input" value={correction.input} />
                  </div>
                  <div>
                    <h3>Right answer</h3>
                    <Json label="Right answer" value={correction.correction} />
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
