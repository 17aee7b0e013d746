import { Option } from "effect"
import { AsyncResult } from "effect/reactivity"
import type { ComponentProps } from "react"
import type { TaskId } from "../../../domain/Ids.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { Link } from "../../app/router.tsx"
import { useAtomValue } from "../../state/atoms.ts"
import { loadedItems } from "../../state/pagedAtom.ts"
import { tasksAtom } from "../../state/tasks.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"

type Records = Parameters<ComponentProps<typeof FirstRecord>["of"]>[0]
type Text = ReturnType<ComponentProps<typeof FirstRecord>["of"]>

/** The first steps of records that belong to a task: the one that is asked for, else the newest. */
export const FirstOfTask = ({
  look,
  of,
  title,
  wanted
}: {
  /** Of the page without any task. */
  readonly title: string
  readonly wanted: TaskId | undefined
  readonly of: (records: Records, origin: string, task: Task) => Text
  readonly look: () => void
}) => {
  const pages = useAtomValue(tasksAtom)
  if (Option.isNone(AsyncResult.value(pages))) return null
  const tasks = loadedItems(pages)
  const task = tasks.find(({ id }) => id === wanted) ?? tasks[0]
  return task === undefined ? (
    <EmptyState title={title}>
      Everything here belongs to a task. <Link to="/tasks">Create a task</Link> first.
    </EmptyState>
  ) : (
    <FirstRecord of={(records, origin) => of(records, origin, task)} look={look} />
  )
}
