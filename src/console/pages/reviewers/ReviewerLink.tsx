import type { TaskId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { useReviewer } from "../../state/reviewers.ts"
import { useCan } from "../../state/session.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** A link to a reviewer model, labelled with its name. Without read access, or before the name is loaded, the label is its id. */
export const ReviewerLink = ({ id }: { readonly id: TaskId }) =>
  useCan()("approvals.read") ? <Named id={id} /> : <span className="id">{id}</span>

const Named = ({ id }: { readonly id: TaskId }) => {
  const name = useReviewer(id)?.name
  return (
    <Link to={`/reviewers/${id}`}>
      {name === undefined ? <span className="id">{id}</span> : <UntrustedText text={name} />}
    </Link>
  )
}
