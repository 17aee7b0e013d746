import type { NewTask as NewTaskPayload } from "../../../api/Tasks.ts"
import { Link, navigate } from "../../app/router.tsx"
import { apiClient } from "../../state/apiClient.ts"
import { refreshTaskLists } from "../../state/tasks.ts"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { KeptWorkNotice } from "../../ui/KeptWorkNotice.tsx"
import { useKeptWork } from "../../state/keptWork.ts"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { restoreTask, toStoredTask } from "./keptTask.ts"
import { newTaskDraft, type TaskDraft, toNewTask } from "./TaskDraft.ts"
import { TaskForm } from "./TaskForm.tsx"

/** Creates a task: name, instructions, schemas and provider. */
export default function NewTask() {
  const kept = useKeptWork<TaskDraft>({
    name: "new task",
    base: "",
    initial: () => newTaskDraft,
    toStored: (work) => toStoredTask(work, newTaskDraft),
    restore: restoreTask
  })
  const draft = kept.work
  const create = useAction((payload: NewTaskPayload) => apiClient.tasks.create({ payload }))
  const submit = async () => {
    const payload = toNewTask(draft)
    const task = payload === undefined ? undefined : await create.run(payload)
    if (task === undefined) return
    kept.forget()
    refreshTaskLists()
    showToast("Task created")
    navigate(`/tasks/${task.id}`)
  }
  return (
    <div className="stack">
      <p>
        <Link to="/tasks">← All tasks</Link>
      </p>
      <PageHeader title="New task">
        Define the input and answer schemas, the instructions and the provider.
      </PageHeader>
      {kept.isRestored ? (
        <KeptWorkNotice onDiscard={kept.discard}>
          <p>API keys and headers of the provider are not kept: type them again.</p>
        </KeptWorkNotice>
      ) : null}
      <TaskForm
        draft={draft}
        onChange={kept.setWork}
        onSubmit={() => void submit()}
        action="Create task"
        pending={create.pending}
        failure={create.failure}
      >
        <Link className="button" to="/tasks" onClick={kept.forget}>
          Cancel
        </Link>
      </TaskForm>
    </div>
  )
}
