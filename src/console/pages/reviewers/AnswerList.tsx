import type { ReviewerAnswerRow } from "../../../api/console/ReviewerAnswers.ts"
import type { TaskId } from "../../../domain/Ids.ts"
import { refreshAlerts } from "../../state/alerts.ts"
import { apiClient } from "../../state/apiClient.ts"
import { refresh } from "../../state/atoms.ts"
import { useKeptWork } from "../../state/keptWork.ts"
import { type AnswerList as List, answersAtom } from "../../state/reviewers.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { AnswerRecord } from "./AnswerRecord.tsx"

const empty: Record<List, readonly [title: string, text: string]> = {
  disagreements: ["No disagreements", "People have decided as it answered, as far as both are compared."],
  review: [
    "No decisions to look at",
    "Listed here is what it decided between the last agreement with people and its stop."
  ],
  all: [
    "No answers to show",
    "An answer is shown once people have decided, so that it does not influence them."
  ]
}

/** A list of answers, with what a person can say about decisions of the model. */
export const AnswerList = ({
  list,
  onChange,
  task_id
}: {
  readonly task_id: TaskId
  readonly list: List
  /** A decision was marked as wrong. */
  readonly onChange: () => void
}) => {
  const atom = answersAtom({ task_id, list })
  /** The decisions that its user found right: only wrong ones change anything, so that they stay in this browser. */
  const right = useKeptWork<ReadonlyArray<string>>({
    name: `right ${task_id}`,
    base: "",
    initial: () => [],
    toStored: (ids) => (ids.length === 0 ? undefined : ids),
    restore: (stored) =>
      Array.isArray(stored) ? stored.filter((one): one is string => typeof one === "string") : undefined
  })
  const [title, text] = empty[list]
  return (
    <PagedList atom={atom}>
      {(answers, hasMore) => {
        const looked = answers.filter(({ id }) => right.work.includes(id)).length
        return answers.length === 0 ? (
          <div className="card">
            <EmptyState title={title}>{text}</EmptyState>
          </div>
        ) : (
          <div className="stack">
            {list === "review" ? (
              <p className="quiet" role="status">
                {looked} of {answers.length}
                {hasMore ? "+" : ""} found right
              </p>
            ) : null}
            {answers.map((answer) => (
              <AnswerRecord key={answer.id} answer={answer}>
                <Opinion
                  answer={answer}
                  isRight={right.work.includes(answer.id)}
                  onRight={(isRight) =>
                    right.setWork(
                      isRight ? [...right.work, answer.id] : right.work.filter((id) => id !== answer.id)
                    )
                  }
                  onWrong={() => {
                    showToast("Marked as wrong: the reviewer is stopped")
                    refresh(atom)
                    refreshAlerts()
                    onChange()
                  }}
                />
              </AnswerRecord>
            ))}
          </div>
        )
      }}
    </PagedList>
  )
}

/** The buttons about a decision of the model. */
const Opinion = ({
  answer: { decision, id, task_id },
  isRight,
  onRight,
  onWrong
}: {
  readonly answer: ReviewerAnswerRow
  readonly isRight: boolean
  readonly onRight: (isRight: boolean) => void
  readonly onWrong: () => void
}) => {
  const can = useCan()
  if (!can("approvals.decide"))
    return <p className="quiet small">Saying so needs the scope approvals.decide, which this key lacks.</p>
  return (
    <div className="notice-actions">
      <Button
        small
        kind={isRight ? "good" : "plain"}
        aria-pressed={isRight}
        onClick={() => onRight(!isRight)}
      >
        Right
      </Button>
      <ConfirmButton
        label="A person would have decided otherwise"
        title="Mark this decision as wrong?"
        confirmLabel="Mark as wrong"
        act={() => apiClient.reviewers.markWrong({ params: { task_id, answer_id: id } })}
        onDone={onWrong}
      >
        <p>
          It counts as a disagreement, and the reviewer stops: people decide from the next step on.{" "}
          {decision === "approve"
            ? "The agent keeps its permission; if it has not acted yet, close its session."
            : "The step stays rejected."}
        </p>
      </ConfirmButton>
    </div>
  )
}
