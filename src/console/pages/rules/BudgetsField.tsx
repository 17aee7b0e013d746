import { Result } from "effect"
import { useId } from "react"
import { BudgetScope, MAX_BUDGETS } from "../../../domain/approvals/RuleBudget.ts"
import { Button } from "../../ui/Button.tsx"
import { SelectField } from "../../ui/Select.tsx"
import { TextAreaField, TextField } from "../../ui/TextField.tsx"
import { type BudgetDraft, fromBudgetDraft, newBudgetDraft } from "./BudgetDraft.ts"
import { DurationField } from "./DurationField.tsx"
import type { ArgumentSuggestions } from "./stepSuggestions.ts"

const scopeLabels: Record<BudgetScope, string> = {
  session: "Each session",
  key: "Each API key",
  organization: "The organization"
}

/** Edits the budgets of a rule that allows. Pointers are suggested from arguments of past steps. */
export const BudgetsField = ({
  drafts,
  onChange,
  showsFaults,
  suggestions
}: {
  readonly drafts: ReadonlyArray<BudgetDraft>
  /** Whether faults are shown: not while a budget is still being written. */
  readonly showsFaults: boolean
  readonly suggestions: ArgumentSuggestions
  readonly onChange: (drafts: ReadonlyArray<BudgetDraft>) => void
}) => {
  const id = useId()
  const change = (key: number, part: Partial<BudgetDraft>) =>
    onChange(drafts.map((one) => (one.key === key ? { ...one, ...part } : one)))
  return (
    <fieldset className="field">
      <legend className="legend">Budgets</legend>
      <p className="hint">
        The rule allows a step only while it fits all of them; else the next rule decides. A step that is
        allowed counts until its window has passed.
      </p>
      {drafts.length === 0 ? null : (
        <datalist id={`${id}-pointers`}>
          {[...suggestions.keys()].map((pointer) => (
            <option key={pointer} value={pointer}>
              {pointer}
            </option>
          ))}
        </datalist>
      )}
      {drafts.map((draft, index) => {
        const parsed = fromBudgetDraft(draft)
        const fault = showsFaults && Result.isFailure(parsed) ? parsed.failure : undefined
        const number = index + 1
        return (
          <fieldset key={draft.key} className="budget">
            <legend className="legend">Budget {number}</legend>
            <SelectField
              label="For"
              value={draft.per}
              onChange={(per) => change(draft.key, { per })}
              options={BudgetScope.literals.map((per) => [per, scopeLabels[per]])}
            />
            <DurationField
              label={`Window of budget ${number}`}
              seconds={draft.window_seconds}
              onChange={(window_seconds) => change(draft.key, { window_seconds })}
            />
            <TextField
              label="Steps at most"
              error={fault}
              inputMode="numeric"
              placeholder="any number"
              value={draft.count}
              onChange={(count) => change(draft.key, { count })}
            />
            <TextField
              label="Sum of"
              hint="JSON Pointer to a number in the arguments."
              placeholder="/amount"
              spellCheck={false}
              autoCapitalize="off"
              list={`${id}-pointers`}
              value={draft.pointer}
              onChange={(pointer) => change(draft.key, { pointer })}
            />
            <TextField
              label="Sum at most"
              inputMode="decimal"
              placeholder="any sum"
              value={draft.at_most}
              onChange={(at_most) => change(draft.key, { at_most })}
            />
            <TextAreaField
              label="Separately for each value of"
              hint="Optional. JSON Pointers, one per line, such as /account."
              rows={1}
              spellCheck={false}
              autoCapitalize="off"
              value={draft.by}
              onChange={(by) => change(draft.key, { by })}
            />
            <Button
              small
              kind="bare"
              aria-label={`Remove budget ${number}`}
              onClick={() => onChange(drafts.filter(({ key }) => key !== draft.key))}
            >
              Remove
            </Button>
          </fieldset>
        )
      })}
      {drafts.length < MAX_BUDGETS ? (
        <div>
          <Button
            small
            onClick={() =>
              onChange([...drafts, newBudgetDraft(Math.max(0, ...drafts.map(({ key }) => key)) + 1)])
            }
          >
            Add budget
          </Button>
        </div>
      ) : null}
    </fieldset>
  )
}
