import { Option } from "effect"
import { AsyncResult } from "effect/reactivity"
import type { TaskId } from "../../domain/Ids.ts"
import { useAtomValue } from "../state/atoms.ts"
import { taskAtom } from "../state/tasks.ts"
import { usePageTitle } from "./PageTitle.tsx"

/** The title of the page of a task's record: `Version 3 · Tickets`. The name of the task follows once it is loaded. */
export const TaskPageTitle = ({ record, task_id }: { readonly record: string; readonly task_id: TaskId }) => {
  const task = Option.getOrUndefined(AsyncResult.value(useAtomValue(taskAtom(task_id))))
  usePageTitle(record, task?.name)
  return null
}
