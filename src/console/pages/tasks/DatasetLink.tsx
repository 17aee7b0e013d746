import type { DatasetId, TaskId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { useLoadedItems } from "../../state/pagedAtom.ts"
import { useCan } from "../../state/session.ts"
import { datasetsAtom } from "../../state/tasks.ts"

interface Version {
  readonly task: TaskId
  readonly id: DatasetId
}

/** A link to a dataset version, labelled with its number. Without read access, or beyond the first loaded page, the label is its id. */
export const DatasetLink = (version: Version) =>
  useCan()("datasets.read") ? <Numbered {...version} /> : <span className="id">{version.id}</span>

const Numbered = ({ id, task }: Version) => {
  const found = useLoadedItems(datasetsAtom(task)).find((dataset) => dataset.id === id)
  return (
    <Link to={`/datasets/${id}`}>
      {found === undefined ? <span className="id">{id}</span> : `version ${found.version}`}
    </Link>
  )
}
