import { FeedbackStatus, type Score } from "../../../domain/tasks/Feedback.ts"
import type { TaskId } from "../../../domain/Ids.ts"
import { useLoadedItems } from "../../state/pagedAtom.ts"
import { tasksAtom } from "../../state/tasks.ts"
import { InlineSelect } from "../../ui/Select.tsx"
import { feedbackStatuses } from "./feedbackStatuses.ts"

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
}) => (
  <InlineSelect
    isLabelHidden
    label="Score"
    options={[[undefined, "All scores"], ...scores]}
    value={score}
    onChange={onChange}
  />
)

/** A select for the status of the listed feedback. */
export const StatusFilter = ({
  onChange,
  status
}: {
  readonly status: FeedbackStatus | "all"
  readonly onChange: (status: FeedbackStatus | "all") => void
}) => (
  <InlineSelect
    isLabelHidden
    label="Status"
    value={status}
    onChange={onChange}
    options={[
      ...FeedbackStatus.literals.map((one) => [one, feedbackStatuses[one][1]] as const),
      ["all", "All"]
    ]}
  />
)

/** A select for the task of the listed feedback; undefined selects all tasks. */
export const TaskFilter = ({
  onChange,
  task
}: {
  readonly task: TaskId | undefined
  readonly onChange: (task: TaskId | undefined) => void
}) => {
  const tasks = useLoadedItems(tasksAtom)
  return (
    <InlineSelect
      isLabelHidden
      label="Task"
      className="task-filter"
      value={task}
      onChange={onChange}
      options={[[undefined, "All tasks"], ...tasks.map(({ id, name }) => [id, name.slice(0, 60)] as const)]}
    />
  )
}
