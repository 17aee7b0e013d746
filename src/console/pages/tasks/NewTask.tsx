import { useState } from "react"
import type { NewTask as NewTaskPayload } from "../../../api/Tasks.ts"
import { Link, navigate } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { service } from "../../state/service.ts"
import { tasksAtom } from "../../state/tasks.ts"
import { PageHead } from "../../ui/PageHead.tsx"
import { say } from "../../ui/toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { newDraft, newTaskOf } from "./draft.ts"
import { TaskForm } from "./TaskForm.tsx"

/** A task is made: its shapes, its instructions, and who answers. */
export default function NewTask() {
  const [draft, setDraft] = useState(newDraft)
  const create = useAction((payload: NewTaskPayload) => service.tasks.create({ payload }))
  const submit = async () => {
    const payload = newTaskOf(draft)
    const task = payload === undefined ? undefined : await create.run(payload)
    if (task === undefined) return
    refresh(tasksAtom)
    say("The task is made")
    navigate(`/tasks/${task.id}`)
  }
  return (
    <div className="stack">
      <p>
        <Link to="/tasks">← All tasks</Link>
      </p>
      <PageHead title="New task">A question that an AI is asked over and over.</PageHead>
      <TaskForm
        draft={draft}
        onChange={setDraft}
        onSubmit={() => void submit()}
        action="Make the task"
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
