import { Option } from "effect"
import { AsyncResult } from "effect/reactivity"
import type { TaskId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { useAtomValue } from "../../state/atoms.ts"
import { useCan } from "../../state/session.ts"
import { taskAtom } from "../../state/tasks.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** A link to a task, labelled with its name. Without read access, or before the name is loaded, the label is its id. */
export const TaskLink = ({ id }: { readonly id: TaskId }) =>
  useCan()("tasks.read") ? <Named id={id} /> : <span className="id">{id}</span>

const Named = ({ id }: { readonly id: TaskId }) => {
  const task = Option.getOrUndefined(AsyncResult.value(useAtomValue(taskAtom(id))))
  return (
    <Link to={`/tasks/${id}`}>
      {task === undefined ? <span className="id">{id}</span> : <UntrustedText text={task.name} />}
    </Link>
  )
}
