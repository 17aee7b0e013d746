import { Schema } from "effect"
import { defaultRuleReviewer, type RuleReviewer } from "../../../domain/approvals/RuleReviewer.ts"
import { DEFAULT_TERMS } from "../../../domain/approvals/Reviewer.ts"
import type { TaskId } from "../../../domain/Ids.ts"
import { settingPercent } from "./reviewerTexts.ts"
import { NumberField } from "../../ui/TextField.tsx"

/** The terms of a rule's reviewer while they are edited: texts, in percent. */
export const TermsDraft = Schema.Struct({
  min_lower_bound: Schema.String,
  max_false_approvals: Schema.String,
  sample: Schema.String
})
export type TermsDraft = typeof TermsDraft.Type

/** Starts editing terms. Without given ones, with the usual. */
export const toTermsDraft = (given?: RuleReviewer): TermsDraft => {
  const { max_false_approvals, min_lower_bound, sample } = given ?? {
    ...DEFAULT_TERMS,
    ...defaultRuleReviewer
  }
  return {
    min_lower_bound: settingPercent(min_lower_bound),
    max_false_approvals: settingPercent(max_false_approvals),
    sample: settingPercent(sample)
  }
}

/** A share of a text in percent, without the rounding errors of a division. */
const shareOf = (percent: string): number => Number((Number(percent) / 100).toFixed(6))

/** The terms of a draft. The form's fields hold them within their limits. */
export const fromTermsDraft = (
  draft: TermsDraft,
  task_id: TaskId,
  never: RuleReviewer["never"]
): RuleReviewer => ({
  task_id,
  min_lower_bound: shareOf(draft.min_lower_bound),
  max_false_approvals: shareOf(draft.max_false_approvals),
  sample: shareOf(draft.sample),
  never
})

/** What keeps terms from being saved; undefined: nothing. */
export const termsFault = ({ max_false_approvals, min_lower_bound }: TermsDraft): string | undefined =>
  Number(max_false_approvals) < 100 - Number(min_lower_bound)
    ? undefined
    : "Expected less than what is missing of the agreement to 100 %: a wrong approval weighs more than a wrong rejection."

/** The fields for the terms on which a reviewer model decides. */
export const ReviewerTermsFields = ({
  draft,
  onChange
}: {
  readonly draft: TermsDraft
  readonly onChange: (draft: TermsDraft) => void
}) => {
  const set = (change: Partial<TermsDraft>) => onChange({ ...draft, ...change })
  return (
    <div className="field-pairs">
      <NumberField
        required
        label="People agree with at least, in percent"
        hint="50 to 99.9. The lower bound must reach it."
        min={50}
        max={99.9}
        value={draft.min_lower_bound}
        onChange={(min_lower_bound) => set({ min_lower_bound })}
      />
      <NumberField
        required
        label="False approvals at most, in percent"
        hint="0 to 50. The upper bound must not exceed it."
        error={termsFault(draft)}
        min={0}
        max={50}
        value={draft.max_false_approvals}
        onChange={(max_false_approvals) => set({ max_false_approvals })}
      />
      <NumberField
        required
        label="To people at random, in percent"
        hint="5 to 100. They look like any other step, and show whether it still agrees."
        min={5}
        max={100}
        value={draft.sample}
        onChange={(sample) => set({ sample })}
      />
    </div>
  )
}
