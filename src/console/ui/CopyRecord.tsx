import { CopyableId } from "./CopyButton.tsx"
import { CopyCurl } from "./CopyCurl.tsx"

/** The ID of a record and the request for it, each with a button that copies it. */
export const CopyRecord = ({
  id,
  of,
  path
}: {
  readonly id: string
  /** What it is, such as "task". */
  readonly of: string
  /** The path of the operation, such as `/v1/tasks/tsk_…`. */
  readonly path: string
}) => (
  <span className="copy-record">
    <CopyableId quiet id={id} of={of} /> <CopyCurl path={path} />
  </span>
)
