import { Option } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import type { TaskId } from "../../../domain/Ids.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { useCan } from "../../state/session.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { FirstOfTask } from "../tasks/FirstOfTask.tsx"

/** Whether there is feedback of any status, of all tasks. */
const anyFeedbackAtom = Atom.make(apiClient.feedback.list({ query: { limit: 1 } }))

/** The list without pending feedback: with the first steps, unless there was feedback before. */
export const NothingToReview = ({
  look,
  task: wanted
}: {
  readonly task: TaskId | undefined
  readonly look: () => void
}) => {
  const any = Option.getOrUndefined(AsyncResult.value(useAtomValue(anyFeedbackAtom)))
  const can = useCan()
  return any?.feedback.length === 0 && can("tasks.read") ? (
    <FirstOfTask
      title="No feedback to review"
      wanted={wanted}
      of={({ firstFeedback }, origin, task) => firstFeedback(origin, task)}
      look={look}
    />
  ) : (
    <EmptyState title="No feedback to review">Corrections submitted through the API appear here.</EmptyState>
  )
}
