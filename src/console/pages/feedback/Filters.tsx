import { Schema } from "effect"
import { FeedbackStatus, type Score } from "../../../domain/tasks/Feedback.ts"
import { TaskId } from "../../../domain/Ids.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { tasksAtom } from "../../state/tasks.ts"
import { SelectField } from "../../ui/SelectField.tsx"
import { feedbackStatuses } from "./feedbackStatuses.ts"

const isTaskId = Schema.is(TaskId)

const scores: ReadonlyArray<readonly [Score, string]> = [
  [1, "Positive"],
  [0, "Neutral"],
  [-1, "Negative"]
]

/** A select for the score of the listed feedback; undefined selects all. */
export const ScoreFilter = ({
  onChange,
  score
}: {
  readonly score: Score | undefined
  readonly onChange: (score: Score | undefined) => void
}) => <SelectField label="Score" none="All scores" options={scores} value={score} onChange={onChange} />

/** A select for the status of the listed feedback. */
export const StatusFilter = ({
  onChange,
  status
}: {
  readonly status: FeedbackStatus | "all"
  readonly onChange: (status: FeedbackStatus | "all") => void
}) => (
  <label className="inline-field">
    <span className="visually-hidden">Status</span>
    <select
      value={status}
      onChange={({ target }) => {
        onChange(FeedbackStatus.literals.find((one) => one === target.value) ?? "all")
      }}
    >
      {FeedbackStatus.literals.map((one) => (
        <option key={one} value={one}>
          {feedbackStatuses[one][1]}
        </option>
      ))}
      <option value="all">All</option>
    </select>
  </label>
)

/** A select for the task of the listed feedback; undefined selects all tasks. */
export const TaskFilter = ({
  onChange,
  task
}: {
  readonly task: TaskId | undefined
  readonly onChange: (task: TaskId | undefined) => void
}) => {
  const result = useAtomValue(tasksAtom)
  const tasks = result._tag === "Success" ? result.value.items.flatMap((page) => page.items) : []
  return (
    <label className="inline-field">
      <span className="visually-hidden">Task</span>
      <select
        className="task-filter"
        value={task ?? ""}
        onChange={({ target }) => onChange(isTaskId(target.value) ? target.value : undefined)}
      >
        <option value="">All tasks</option>
        {task !== undefined && !tasks.some(({ id }) => id === task) ? (
          <option value={task}>{task}</option>
        ) : null}
        {tasks.map((one) => (
          <option key={one.id} value={one.id}>
            {one.name.slice(0, 60)}
          </option>
        ))}
      </select>
    </label>
  )
}
