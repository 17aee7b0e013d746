import { Schema } from "effect"
import { useState } from "react"
import type { TaskChange } from "../../../api/Tasks.ts"
import { TaskId } from "../../../domain/Ids.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { service } from "../../state/service.ts"
import { taskAtom, tasksAtom } from "../../state/tasks.ts"
import { Empty } from "../../ui/Empty.tsx"
import { Loaded } from "../../ui/Loaded.tsx"
import { PageHead } from "../../ui/PageHead.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { say } from "../../ui/toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { changeOf, draftOf } from "./draft.ts"
import { TaskForm } from "./TaskForm.tsx"

const isTaskId = Schema.is(TaskId)

/** The name and the working copy of a task are changed: what the next comparison tries. */
export default function EditTask({ params }: PageProps) {
  const id = params["id"]
  return isTaskId(id) ? <Open id={id} /> : <Empty title="There is no such task" />
}

const Open = ({ id }: { readonly id: TaskId }) => {
  const result = useAtomValue(taskAtom(id))
  return (
    <Loaded result={result} atom={taskAtom(id)}>
      {(task) => <Edit task={task} />}
    </Loaded>
  )
}

const Edit = ({ task }: { readonly task: Task }) => {
  // As it was when the page was opened: an answer that comes later does not change what is being written.
  const [before] = useState(task)
  const [draft, setDraft] = useState(() => draftOf(before))
  const back = `/tasks/${task.id}`
  const save = useAction((payload: TaskChange) =>
    service.tasks.update({ params: { task_id: task.id }, payload })
  )
  const submit = async () => {
    const change = changeOf(before, draft)
    if (change === undefined) return
    if (Object.keys(change).length > 0) {
      if ((await save.run(change)) === undefined) return
      refresh(taskAtom(task.id))
      refresh(tasksAtom)
      say("The working copy is saved")
    }
    navigate(back)
  }
  return (
    <div className="stack">
      <p>
        <Link to={back}>← The task</Link>
      </p>
      <PageHead
        title={
          <>
            Working copy of <Safe text={before.name} />
          </>
        }
      >
        What the next comparison tries. What is live stays as it was released.
      </PageHead>
      <TaskForm
        draft={draft}
        onChange={setDraft}
        onSubmit={() => void submit()}
        action="Save the working copy"
        pending={save.pending}
        failure={save.failure}
        keySet={before.provider_key_set}
        shapesFixed={before.dataset_id !== null}
      >
        <Link className="button" to={back}>
          Cancel
        </Link>
      </TaskForm>
    </div>
  )
}
