import { Result, Schema } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import { useMemo, useState } from "react"
import { CommentRequirement } from "../../../domain/approvals/Approval.ts"
import { ApprovalRule, RuleEffect } from "../../../domain/approvals/ApprovalRule.ts"
import { compileTextPattern } from "../../../domain/approvals/CompiledRules/compileTextPattern.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useAtomValue } from "../../state/atoms.ts"
import type { RuleId } from "../../../domain/Ids.ts"
import { Checkbox } from "../../ui/Checkbox.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { SelectField } from "../../ui/Select.tsx"
import { useFormDraft } from "../../ui/useFormDraft.ts"
import { TextAreaField, TextField } from "../../ui/TextField.tsx"
import { fromTermsDraft, termsFault } from "../reviewers/ReviewerTermsFields.tsx"
import { takesReviewer } from "../reviewers/termsOfRules.ts"
import { BudgetDraft, fromBudgetDraft, toBudgetDraft } from "./BudgetDraft.ts"
import { BudgetsField } from "./BudgetsField.tsx"
import { ConditionDraft, fromConditionDraft, toConditionDraft } from "./ConditionDraft.ts"
import { ConditionsField } from "./ConditionsField.tsx"
import { ReviewerField, RuleReviewerDraft, toReviewerDraft } from "./ReviewerField.tsx"
import type { RuleDraft } from "./RuleDraft.ts"
import { DurationField } from "./DurationField.tsx"
import { QuorumField } from "./QuorumField.tsx"
import { summaryFault, SummaryField } from "./SummaryField.tsx"
import { TaskField } from "./TaskField.tsx"
import { suggestionsOf } from "./stepSuggestions.ts"

const effectLabels: Record<RuleEffect, string> = {
  require_approval: "Require approval",
  allow: "Allow",
  reject: "Reject"
}

const requirementLabels: Record<CommentRequirement, string> = {
  never: "Optional",
  reject: "Required to reject",
  always: "Required with every decision"
}

/** The newest approvals, whose arguments are suggestions for conditions. */
const recentApprovals = Atom.make(apiClient.approvals.list({ query: { limit: 100 } }))

/** The rule and its texts as they are typed, which need not be valid yet. */
const Changes = Schema.Struct({
  rule: Schema.optionalKey(
    ApprovalRule.mapFields((fields) => ({
      ...fields,
      tool: Schema.String,
      action_class: Schema.String,
      summary_template: Schema.NullOr(Schema.String)
    }))
  ),
  isNew: Schema.optionalKey(Schema.Boolean),
  conditions: Schema.optionalKey(Schema.Array(ConditionDraft)),
  budgets: Schema.optionalKey(Schema.Array(BudgetDraft)),
  reviewer: Schema.optionalKey(RuleReviewerDraft)
})

/** The name of the dialog's kept input. */
export const EDITED_RULE = "edited rule"

/** A dialog that edits one rule of the list. The change is sent when the list is saved. */
export const RuleDialog = ({
  draft,
  isListed,
  onClose,
  onSubmit
}: {
  readonly draft: RuleDraft
  /** Whether a rule is already in the list, saved or not. */
  readonly isListed: (id: RuleId) => boolean
  readonly onClose: () => void
  readonly onSubmit: (draft: RuleDraft) => void
}) => {
  const kept = useFormDraft<Required<typeof Changes.Type>>(EDITED_RULE, Changes, {
    ...draft,
    conditions: draft.rule.when.map((condition, key) => toConditionDraft(condition, key)),
    budgets: draft.rule.budgets.map((budget, key) => toBudgetDraft(budget, key)),
    reviewer: toReviewerDraft(draft.rule.reviewer)
  })
  const { budgets, conditions, isNew, reviewer, rule } = kept.value
  // Always with the rule, so that the kept input names the rule that it is about.
  const change = (part: Partial<typeof Changes.Type>) => kept.set({ isNew, rule, ...part })
  const [isSubmitted, setSubmitted] = useState(false)
  const recent = useAtomValue(recentApprovals)
  const examples = useMemo(() => {
    const matchesTool = compileTextPattern(rule.tool)
    const approvals = AsyncResult.isSuccess(recent) ? recent.value.approvals : []
    return approvals.flatMap(({ arguments: given, tool }) =>
      given !== undefined && matchesTool(tool) ? [given] : []
    )
  }, [recent, rule.tool])
  const suggestions = useMemo(() => suggestionsOf(examples), [examples])
  const set = (part: Partial<ApprovalRule>) => change({ rule: { ...rule, ...part } })
  // Only a rule that asks one person has a reviewer model.
  const hasReviewer = takesReviewer(rule) && reviewer.task_id !== null
  const submit = () => {
    const parsed = Result.all({
      when: Result.all(conditions.map(fromConditionDraft)),
      // Only a rule that allows has budgets.
      budgets: Result.all(rule.effect === "allow" ? budgets.map(fromBudgetDraft) : []),
      never: Result.all(hasReviewer ? reviewer.never.map(fromConditionDraft) : [])
    })
    setSubmitted(true)
    if (summaryFault(rule.summary_template) !== undefined || Result.isFailure(parsed)) return
    if (hasReviewer && termsFault(reviewer.terms) !== undefined) return
    const { never, ...changed } = parsed.success
    onSubmit({
      isNew,
      rule: {
        ...rule,
        ...changed,
        reviewer:
          takesReviewer(rule) && reviewer.task_id !== null
            ? fromTermsDraft(reviewer.terms, reviewer.task_id, never)
            : null
      }
    })
  }
  return (
    <FormDialog
      title={isListed(rule.id) ? "Edit rule" : "New rule"}
      draft={kept}
      submit={isListed(rule.id) ? "Update rule" : "Add rule"}
      onSubmit={submit}
      onClose={onClose}
    >
      <SelectField
        label="Effect"
        value={rule.effect}
        onChange={(effect) => set({ effect })}
        options={RuleEffect.literals
          .map((effect) => [effect, effectLabels[effect]] as const)
          .toSorted(([, left], [, right]) => left.localeCompare(right))}
      />
      <TextField
        label="Tool"
        hint="The exact name, or a pattern with * as a wildcard."
        required
        maxLength={200}
        spellCheck={false}
        value={rule.tool}
        onChange={(tool) => set({ tool })}
      />
      <TextField
        label="Action class"
        hint="For example read, write or admin, as sent by the agent."
        required
        maxLength={200}
        spellCheck={false}
        value={rule.action_class}
        onChange={(action_class) => set({ action_class })}
      />
      <TaskField
        hint="Without one, the rule matches steps of any task and steps without one."
        task={rule.task_id}
        onChange={(task_id) => set({ task_id })}
      />
      <ConditionsField
        drafts={conditions}
        showsFaults={isSubmitted}
        suggestions={suggestions}
        onChange={(conditions) => change({ conditions })}
      />
      {rule.effect === "allow" ? (
        <BudgetsField
          drafts={budgets}
          showsFaults={isSubmitted}
          suggestions={suggestions}
          onChange={(budgets) => change({ budgets })}
        />
      ) : null}
      {rule.effect === "require_approval" ? (
        <>
          <QuorumField quorum={rule.quorum} onChange={(quorum) => set({ quorum })} />
          <DurationField
            label="Review window"
            seconds={rule.review_seconds}
            onChange={(review_seconds) => set({ review_seconds })}
          />
          <DurationField
            label="Escalation window (admins)"
            hint="Optional. Without it, the approval expires after the review window."
            seconds={rule.escalation_seconds}
            onChange={(escalation_seconds) => set({ escalation_seconds })}
            onClear={() => set({ escalation_seconds: null })}
          />
          <DurationField
            label="Expiry warning before the deadline"
            hint="Optional. Default: when a quarter of the window is left."
            seconds={rule.expiring_seconds}
            onChange={(expiring_seconds) => set({ expiring_seconds })}
            onClear={() => set({ expiring_seconds: null })}
          />
          <SelectField
            label="Timeout action"
            value={rule.timeout_action}
            onChange={(timeout_action) => set({ timeout_action })}
            options={[
              ["reject", "Reject the step"],
              ["allow", "Allow the step"]
            ]}
          />
          <SelectField
            label="Comment of the decision"
            value={rule.require_comment}
            onChange={(require_comment) => set({ require_comment })}
            options={CommentRequirement.literals.map((one) => [one, requirementLabels[one]])}
          />
          <Checkbox checked={rule.self_approval} onChange={(isChecked) => set({ self_approval: isChecked })}>
            Allow self-approval by the requesting key
          </Checkbox>
          <ReviewerField
            draft={reviewer}
            isPossible={takesReviewer(rule)}
            showsFaults={isSubmitted}
            suggestions={suggestions}
            onChange={(reviewer) => change({ reviewer })}
          />
          <SummaryField
            template={rule.summary_template}
            examples={examples}
            onChange={(summary_template) => set({ summary_template })}
          />
        </>
      ) : null}
      <TextAreaField
        label="Reason"
        hint="Shown to the agent and reviewers."
        rows={2}
        maxLength={1_000}
        value={rule.reason}
        onChange={(reason) => set({ reason })}
      />
    </FormDialog>
  )
}
