import { Option, Schema } from "effect"
import { AsyncResult } from "effect/reactivity"
import type { RuleReviewer } from "../../../domain/approvals/RuleReviewer.ts"
import { TaskId } from "../../../domain/Ids.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { reviewersAtom } from "../../state/reviewers.ts"
import { plainLine } from "../../ui/plainLine.ts"
import { SelectField } from "../../ui/Select.tsx"
import { ReviewerTermsFields, TermsDraft, toTermsDraft } from "../reviewers/ReviewerTermsFields.tsx"
import { ConditionDraft, toConditionDraft } from "./ConditionDraft.ts"
import { ConditionsField } from "./ConditionsField.tsx"
import type { ArgumentSuggestions } from "./stepSuggestions.ts"

/** The most characters of a name in the choice of reviewers. */
const MAX_NAME = 60

/** The reviewer of a rule while it is edited. */
export const RuleReviewerDraft = Schema.Struct({
  task_id: Schema.NullOr(TaskId),
  terms: TermsDraft,
  never: Schema.Array(ConditionDraft)
})
export type RuleReviewerDraft = typeof RuleReviewerDraft.Type

/** Starts editing the reviewer of a rule; null: it has none. */
export const toReviewerDraft = (reviewer: RuleReviewer | null): RuleReviewerDraft => ({
  task_id: reviewer?.task_id ?? null,
  terms: toTermsDraft(reviewer ?? undefined),
  never: (reviewer?.never ?? []).map((condition, key) => toConditionDraft(condition, key))
})

/** The reviewer model of a rule, with the terms on which it decides. */
export const ReviewerField = ({
  draft,
  isPossible,
  onChange,
  showsFaults,
  suggestions
}: {
  readonly draft: RuleReviewerDraft
  /** Whether the rule may have one. */
  readonly isPossible: boolean
  readonly showsFaults: boolean
  readonly suggestions: ArgumentSuggestions
  readonly onChange: (draft: RuleReviewerDraft) => void
}) => {
  const reviewers = Option.getOrElse(AsyncResult.value(useAtomValue(reviewersAtom)), () => [])
  const { task_id } = draft
  if (reviewers.length === 0 && task_id === null) return null
  return (
    <>
      <SelectField
        label="Reviewer model"
        hint={
          isPossible
            ? "It decides the steps for which it has earned that, and people decide the others."
            : "Only with one approval of anyone, and a timeout that rejects."
        }
        disabled={!isPossible && task_id === null}
        options={[
          [null, "People decide"],
          ...reviewers.map((one) => [one.task_id, plainLine(one.name, MAX_NAME)] as const)
        ]}
        value={task_id}
        onChange={(chosen) => onChange({ ...draft, task_id: chosen })}
      />
      {task_id === null ? null : (
        <>
          <ReviewerTermsFields draft={draft.terms} onChange={(terms) => onChange({ ...draft, terms })} />
          <ConditionsField
            legend="Never decided by the model"
            name="Never"
            hint="A step for which one of these holds, or cannot be judged, goes to people."
            drafts={draft.never}
            showsFaults={showsFaults}
            suggestions={suggestions}
            onChange={(never) => onChange({ ...draft, never })}
          />
        </>
      )}
    </>
  )
}
