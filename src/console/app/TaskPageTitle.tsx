import type { TaskId } from "../../domain/Ids.ts"
import { useTaskName } from "../state/tasks.ts"
import { usePageTitle } from "./PageTitle.tsx"

/** The title of the page of a task's record: `Version 3 · Tickets`. The name of the task follows once it is loaded. */
export const TaskPageTitle = ({ record, task_id }: { readonly record: string; readonly task_id: TaskId }) => {
  usePageTitle(record, useTaskName(task_id))
  return null
}
