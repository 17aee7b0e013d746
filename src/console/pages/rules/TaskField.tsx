import type { TaskId } from "../../../domain/Ids.ts"
import { useLoadedItems } from "../../state/pagedAtom.ts"
import { useCan } from "../../state/session.ts"
import { tasksAtom } from "../../state/tasks.ts"
import { plainLine } from "../../ui/plainLine.ts"
import { SelectField } from "../../ui/Select.tsx"

/** The most characters of a name in the choice of tasks. */
const MAX_NAME = 60

interface Choice {
  readonly hint: string
  readonly task: TaskId | null
  readonly onChange: (task: TaskId | null) => void
}

/** The task of a rule or of a step, chosen by name; null: any or none. A key that may not read tasks keeps the given one. */
export const TaskField = (choice: Choice) =>
  useCan()("tasks.read") ? (
    <Named {...choice} />
  ) : choice.task === null ? null : (
    <Select {...choice} tasks={[]} />
  )

const Named = (choice: Choice) => {
  const tasks = useLoadedItems(tasksAtom)
  return <Select {...choice} tasks={tasks} />
}

const Select = ({
  hint,
  onChange,
  task,
  tasks
}: Choice & { readonly tasks: ReadonlyArray<{ readonly id: TaskId; readonly name: string }> }) => (
  <SelectField
    label="Task"
    hint={hint}
    options={[[null, "No task"], ...tasks.map(({ id, name }) => [id, plainLine(name, MAX_NAME)] as const)]}
    value={task}
    onChange={onChange}
  />
)
