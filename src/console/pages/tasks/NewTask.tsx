import { useState } from "react"
import type { NewTask as NewTaskPayload } from "../../../api/Tasks.ts"
import { Link, navigate } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { tasksAtom } from "../../state/tasks.ts"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { newTaskDraft, toNewTask } from "./TaskDraft.ts"
import { TaskForm } from "./TaskForm.tsx"

/** Creates a task: name, instructions, schemas and provider. */
export default function NewTask() {
  const [draft, setDraft] = useState(newTaskDraft)
  const create = useAction((payload: NewTaskPayload) => apiClient.tasks.create({ payload }))
  const submit = async () => {
    const payload = toNewTask(draft)
    const task = payload === undefined ? undefined : await create.run(payload)
    if (task === undefined) return
    refresh(tasksAtom)
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
      <TaskForm
        draft={draft}
        onChange={setDraft}
        onSubmit={() => void submit()}
        action="Create task"
        pending={create.pending}
        failure={create.failure}
      >
        <Link className="button" to="/tasks">
          Cancel
        </Link>
      </TaskForm>
    </div>
  )
}
