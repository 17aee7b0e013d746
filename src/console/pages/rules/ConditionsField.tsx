import { Record, Result } from "effect"
import { useId } from "react"
import { Button } from "../../ui/Button.tsx"
import { Select } from "../../ui/Select.tsx"
import { type ConditionDraft, fromConditionDraft, operators } from "./ConditionDraft.ts"
import type { ArgumentSuggestions } from "./stepSuggestions.ts"
import { MAX_RULE_CONDITIONS } from "../../../domain/approvals/RuleCondition.ts"

/** The operators, as the `select` lists them. */
const ops = Record.toEntries(operators).map(([op, { label }]) => [op, label] as const)

/** Edits the conditions of a rule on the step's arguments. Pointers and values are suggested from arguments of past steps. */
export const ConditionsField = ({
  drafts,
  hint: meaning = "All must hold. A value that is missing or has another type is never allowed by this rule, and makes a rule that rejects ask a person instead.",
  legend = "Conditions on the arguments",
  name = "Condition",
  onChange,
  showsFaults,
  suggestions
}: {
  readonly legend?: string
  readonly hint?: string
  /** What one condition is called. */
  readonly name?: string
  readonly drafts: ReadonlyArray<ConditionDraft>
  /** Whether faults are shown: not while a condition is still being written. */
  readonly showsFaults: boolean
  readonly suggestions: ArgumentSuggestions
  readonly onChange: (drafts: ReadonlyArray<ConditionDraft>) => void
}) => {
  const id = useId()
  const change = (key: number, part: Partial<ConditionDraft>) =>
    onChange(drafts.map((one) => (one.key === key ? { ...one, ...part } : one)))
  return (
    <fieldset className="field">
      <legend className="legend">{legend}</legend>
      <p className="hint">{meaning}</p>
      <datalist id={`${id}-pointers`}>
        {[...suggestions.keys()].map((pointer) => (
          <option key={pointer} value={pointer}>
            {pointer}
          </option>
        ))}
      </datalist>
      {drafts.map((draft, index) => {
        const { hint, kind } = operators[draft.op]
        const parsed = fromConditionDraft(draft)
        const fault = showsFaults && Result.isFailure(parsed) ? parsed.failure : undefined
        const values = suggestions.get(draft.pointer) ?? []
        const number = index + 1
        return (
          <div key={draft.key} className={fault === undefined ? "condition" : "condition invalid"}>
            <input
              aria-label={`${name} ${number}, JSON Pointer`}
              placeholder="/amount"
              spellCheck={false}
              autoCapitalize="off"
              list={`${id}-pointers`}
              value={draft.pointer}
              onChange={({ target }) => change(draft.key, { pointer: target.value })}
            />
            <Select
              aria-label={`${name} ${number}, comparison`}
              value={draft.op}
              onChange={(op) => change(draft.key, { op })}
              options={ops}
            />
            {kind === "none" ? (
              <span />
            ) : (
              <>
                <input
                  aria-label={`${name} ${number}, value`}
                  aria-invalid={fault === undefined ? undefined : true}
                  {...(fault === undefined ? {} : { "aria-describedby": `${id}-fault-${draft.key}` })}
                  placeholder={hint}
                  spellCheck={false}
                  autoCapitalize="off"
                  inputMode={kind === "number" ? "decimal" : "text"}
                  list={`${id}-values-${draft.key}`}
                  value={draft.value}
                  onChange={({ target }) => change(draft.key, { value: target.value })}
                />
                <datalist id={`${id}-values-${draft.key}`}>
                  {values.map((text) => (
                    <option key={text} value={kind === "text" ? unquoted(text) : text}>
                      {kind === "text" ? unquoted(text) : text}
                    </option>
                  ))}
                </datalist>
              </>
            )}
            <Button
              small
              kind="bare"
              aria-label={name === "Condition" ? `Remove condition ${number}` : `Remove ${name} ${number}`}
              onClick={() => onChange(drafts.filter(({ key }) => key !== draft.key))}
            >
              Remove
            </Button>
            {fault === undefined ? null : (
              <p className="field-error" id={`${id}-fault-${draft.key}`}>
                {fault}
              </p>
            )}
          </div>
        )
      })}
      {drafts.length < MAX_RULE_CONDITIONS ? (
        <div>
          <Button
            small
            onClick={() =>
              onChange([
                ...drafts,
                {
                  key: Math.max(0, ...drafts.map(({ key }) => key)) + 1,
                  pointer: "",
                  op: "equals",
                  value: ""
                }
              ])
            }
          >
            Add condition
          </Button>
        </div>
      ) : null}
    </fieldset>
  )
}

/** The text of a JSON string; other JSON as it is. */
const unquoted = (json: string): string => {
  const value: unknown = JSON.parse(json)
  return typeof value === "string" ? value : json
}
