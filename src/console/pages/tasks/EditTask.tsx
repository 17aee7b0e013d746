import { Schema } from "effect"
import { useState } from "react"
import type { TaskChange } from "../../../api/Tasks.ts"
import { TaskId } from "../../../domain/Ids.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { taskAtom, tasksAtom } from "../../state/tasks.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { toTaskChange, toTaskDraft } from "./TaskDraft.ts"
import { TaskForm } from "./TaskForm.tsx"

const isTaskId = Schema.is(TaskId)

/** Edits a task's name and working copy, which the next comparison tests. */
export default function EditTask({ params }: PageProps) {
  const id = params["id"]
  return isTaskId(id) ? <LoadedTask id={id} /> : <EmptyState title="Task not found" />
}

const LoadedTask = ({ id }: { readonly id: TaskId }) => {
  const result = useAtomValue(taskAtom(id))
  return (
    <AsyncContent result={result} atom={taskAtom(id)}>
      {(task) => <TaskEditor task={task} />}
    </AsyncContent>
  )
}

const TaskEditor = ({ task }: { readonly task: Task }) => {
  // The task as of opening the page: a later refresh must not overwrite the form.
  const [before] = useState(task)
  const [draft, setDraft] = useState(() => toTaskDraft(before))
  const back = `/tasks/${task.id}`
  const save = useAction((payload: TaskChange) =>
    apiClient.tasks.update({ params: { task_id: task.id }, payload })
  )
  const submit = async () => {
    const change = toTaskChange(before, draft)
    if (change === undefined) return
    if (Object.keys(change).length > 0) {
      if ((await save.run(change)) === undefined) return
      refresh(taskAtom(task.id))
      refresh(tasksAtom)
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
      <TaskForm
        draft={draft}
        onChange={setDraft}
        onSubmit={() => void submit()}
        action="Save working copy"
        pending={save.pending}
        failure={save.failure}
        hasProviderKey={before.provider_key_set}
        hasProviderHeaders={before.provider_headers_set}
        schemasLocked={before.dataset_id !== null}
      >
        <Link className="button" to={back}>
          Cancel
        </Link>
      </TaskForm>
    </div>
  )
}
