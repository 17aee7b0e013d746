import type { ReleaseId, TaskId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { useLoadedItems } from "../../state/pagedAtom.ts"
import { useCan } from "../../state/session.ts"
import { releasesAtom } from "../../state/tasks.ts"

interface OfTask {
  readonly task: TaskId
  readonly id: ReleaseId
}

/** A link to a task's releases, labelled with the number of one. Without read access, or beyond the first loaded page, the label is its id. */
export const ReleaseLink = (release: OfTask) =>
  useCan()("tasks.read") ? <Numbered {...release} /> : <span className="id">{release.id}</span>

const Numbered = ({ id, task }: OfTask) => {
  const found = useLoadedItems(releasesAtom(task)).find((release) => release.id === id)
  return (
    <Link to={`/tasks/${task}/releases`}>
      {found === undefined ? <span className="id">{id}</span> : `release ${found.number}`}
    </Link>
  )
}
