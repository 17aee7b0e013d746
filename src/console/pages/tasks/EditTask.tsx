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

/** The name and the working copy of a task are changed: what the next comparison tries. */
export default function EditTask({ params }: PageProps) {
  const id = params["id"]
  return isTaskId(id) ? <LoadedTask id={id} /> : <EmptyState title="There is no such task" />
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
  // As it was when the page was opened: an answer that comes later does not change what is being written.
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
      showToast("The working copy is saved")
    }
    navigate(back)
  }
  return (
    <div className="stack">
      <p>
        <Link to={back}>← The task</Link>
      </p>
      <PageHeader
        title={
          <>
            Working copy of <UntrustedText text={before.name} />
          </>
        }
      >
        What the next comparison tries. What is live stays as it was released.
      </PageHeader>
      <TaskForm
        draft={draft}
        onChange={setDraft}
        onSubmit={() => void submit()}
        action="Save the working copy"
        pending={save.pending}
        failure={save.failure}
        keySet={before.provider_key_set}
        schemasLocked={before.dataset_id !== null}
      >
        <Link className="button" to={back}>
          Cancel
        </Link>
      </TaskForm>
    </div>
  )
}
