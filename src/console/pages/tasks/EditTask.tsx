import { Result, Schema } from "effect"
import { useState } from "react"
import type { TaskChange } from "../../../api/Tasks.ts"
import { TaskId } from "../../../domain/Ids.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { taskAtom, refreshTaskLists } from "../../state/tasks.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { Button } from "../../ui/Button.tsx"
import { parseJson } from "../../ui/jsonText.ts"
import { KeptWorkNotice } from "../../ui/KeptWorkNotice.tsx"
import { useKeptWork } from "../../state/keptWork.ts"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { rebaseTask, restoreTask, toStoredTask } from "./keptTask.ts"
import { type TaskDraft, toTaskChange, toTaskDraft } from "./TaskDraft.ts"
import { TaskForm } from "./TaskForm.tsx"

const isTaskId = Schema.is(TaskId)

/** Edits a task's name and working copy, which the next comparison tests. */
export default function EditTask({ params }: PageProps) {
  const id = params["id"]
  return isTaskId(id) ? <LoadedTask id={id} /> : <EmptyState title="Task not found" />
}

const LoadedTask = ({ id }: { readonly id: TaskId }) => {
  return <AsyncContent atom={taskAtom(id)}>{(task) => <TaskEditor task={task} />}</AsyncContent>
}

const TaskEditor = ({ task }: { readonly task: Task }) => {
  // The task as of opening the page: a later refresh must not overwrite the form.
  const [before] = useState(task)
  const [saved] = useState(() => toTaskDraft(before))
  const base = JSON.stringify(saved)
  const kept = useKeptWork<TaskDraft>({
    name: `task ${before.id}`,
    base,
    initial: () => saved,
    toStored: (work) => toStoredTask(work, saved),
    restore: restoreTask
  })
  const draft = kept.work
  const typedOver = kept.base === base ? undefined : restoreTask(parsed(kept.base))
  const rebased = typedOver === undefined ? undefined : rebaseTask(typedOver, draft, saved)
  const back = `/tasks/${task.id}`
  const save = useAction((payload: TaskChange) =>
    apiClient.tasks.update({ params: { id: task.id }, payload })
  )
  const submit = async () => {
    if (rebased !== undefined) return
    const change = toTaskChange(before, draft)
    if (change === undefined) return
    if (Object.keys(change).length > 0) {
      if ((await save.run(change)) === undefined) return
      kept.forget()
      refresh(taskAtom(task.id))
      refreshTaskLists()
      showToast("Working copy saved")
    }
    navigate(back)
  }
  return (
    <div className="stack">
      <p>
        <Link to={back}>← Back to task</Link>
      </p>
      <PageHeader
        title={
          <>
            Working copy of <UntrustedText text={before.name} />
          </>
        }
      >
        The next comparison tests the working copy. The live release does not change.
      </PageHeader>
      {rebased !== undefined ? (
        <div className="notice warn" role="alert">
          <p className="notice-title">The task was saved elsewhere since you typed this</p>
          <p>
            {rebased.conflicts.length === 0
              ? "The other changes are in other fields than yours."
              : `Fields that changed in both: ${rebased.conflicts.map((name) => name.replaceAll("_", " ")).join(", ")}.`}{" "}
            Put your changes onto the saved task, or discard them.
          </p>
          <div className="notice-actions">
            <Button small kind="primary" onClick={() => kept.rebase(rebased.draft)}>
              Keep my changes
            </Button>
            <Button small onClick={kept.discard}>
              Discard changes
            </Button>
          </div>
        </div>
      ) : kept.isRestored ? (
        <KeptWorkNotice onDiscard={kept.discard}>
          <p>API keys and headers of the provider are not kept: type them again.</p>
        </KeptWorkNotice>
      ) : null}
      <TaskForm
        draft={draft}
        onChange={kept.setWork}
        onSubmit={() => void submit()}
        action="Save working copy"
        pending={save.pending}
        failure={save.failure}
        hasProviderKey={before.provider_key_set}
        hasProviderHeaders={before.provider_headers_set}
        schemasLocked={before.dataset_id !== null}
      >
        <Link className="button" to={back} onClick={kept.forget}>
          Cancel
        </Link>
      </TaskForm>
    </div>
  )
}

const parsed = (text: string): unknown => Result.getOrUndefined(parseJson(text))
