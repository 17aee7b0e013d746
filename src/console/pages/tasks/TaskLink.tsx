import type { TaskId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { useCan } from "../../state/session.ts"
import { useTaskName } from "../../state/tasks.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** A link to a task, labelled with its name. Without read access, or before the name is loaded, the label is its id. */
export const TaskLink = ({ id }: { readonly id: TaskId }) => {
  const name = useTaskName(id)
  const label = name === undefined ? <span className="id">{id}</span> : <UntrustedText text={name} />
  return useCan()("tasks.read") ? <Link to={`/tasks/${id}`}>{label}</Link> : label
}
