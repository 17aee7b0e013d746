import type { Approval } from "../../../domain/approvals/Approval.ts"
import { Link } from "../../app/router.tsx"
import { approvalAnswersAtom } from "../../state/reviewers.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { ModelAnswer } from "../reviewers/AnswerRecord.tsx"

/** What each reviewer model had answered about an approval that people have decided. */
export const ReviewerSection = ({ approval_id }: Pick<Approval, "approval_id">) => {
  const atom = approvalAnswersAtom(approval_id)
  return (
    <AsyncContent atom={atom}>
      {(found) =>
        found.length === 0 ? null : (
          <section aria-label="Reviewer models">
            <h3>Reviewer models</h3>
            <ul className="model-answers">
              {found.map(({ answer, reviewer }) => (
                <li key={answer.id}>
                  <p>
                    <Link to={`/reviewers/${reviewer.task_id}`}>
                      <UntrustedText text={reviewer.name} />
                    </Link>{" "}
                    <span className="quiet small">answered beside people</span>
                  </p>
                  <ModelAnswer answer={answer} />
                </li>
              ))}
            </ul>
          </section>
        )
      }
    </AsyncContent>
  )
}
