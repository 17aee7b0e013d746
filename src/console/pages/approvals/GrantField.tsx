import { Result, type Schema } from "effect"
import { useMemo } from "react"
import { type GrantScope, MAX_GRANT_USES } from "../../../domain/approvals/Grant.ts"
import { Button } from "../../ui/Button.tsx"
import { SelectField } from "../../ui/Select.tsx"
import { TextField } from "../../ui/TextField.tsx"
import { ConditionsField } from "../rules/ConditionsField.tsx"
import { suggestionsOf } from "../rules/stepSuggestions.ts"
import { fromGrantDraft, type GrantDraft, newGrantDraft } from "./GrantDraft.ts"

const scopes: ReadonlyArray<readonly [GrantScope, string]> = [
  ["arguments", "exactly these arguments"],
  ["condition", "arguments that meet conditions"],
  ["tool", "any arguments"]
]

const durations: ReadonlyArray<readonly [number, string]> = [
  [900, "15 minutes"],
  [3_600, "1 hour"],
  [8 * 3_600, "8 hours"],
  [24 * 3_600, "24 hours"]
]

/** The choices of a standing grant, which is made with an approval. Opened by a button. */
export const GrantField = ({
  draft,
  onChange,
  stepArguments
}: {
  /** Undefined while it is closed. */
  readonly draft: GrantDraft | undefined
  readonly stepArguments: Schema.Json | undefined
  readonly onChange: (draft: GrantDraft | undefined) => void
}) => {
  const suggestions = useMemo(
    () => suggestionsOf(stepArguments === undefined ? [] : [stepArguments]),
    [stepArguments]
  )
  if (draft === undefined) {
    return (
      <div>
        <Button small onClick={() => onChange(newGrantDraft)}>
          Allow further steps…
        </Button>
      </div>
    )
  }
  const change = (part: Partial<GrantDraft>) => onChange({ ...draft, ...part })
  const parsed = fromGrantDraft(draft, "")
  return (
    <fieldset className="grant-field">
      <legend className="legend">
        Also allow further steps of this session with this tool and action class
      </legend>
      <div className="grant-choices">
        <SelectField
          label="With"
          options={scopes}
          value={draft.scope}
          onChange={(scope) => change({ scope })}
        />
        <SelectField
          label="For"
          options={durations}
          value={draft.seconds}
          onChange={(seconds) => change({ seconds })}
        />
        <TextField
          label="At most, steps (optional)"
          inputMode="numeric"
          placeholder={`1 to ${MAX_GRANT_USES}`}
          value={draft.uses}
          onChange={(uses) => change({ uses })}
        />
      </div>
      {draft.scope === "condition" ? (
        <ConditionsField
          drafts={draft.conditions}
          showsFaults={false}
          suggestions={suggestions}
          onChange={(conditions) => change({ conditions })}
        />
      ) : null}
      <p className="hint">
        Rules that reject still win, and nothing is allowed that you could not approve alone. The comment is
        the reason that the agent gets. Revoke a grant on the page Grants.
      </p>
      {Result.isFailure(parsed) ? (
        <p className="field-error" role="status">
          {parsed.failure}
        </p>
      ) : null}
      <div>
        <Button small kind="bare" onClick={() => onChange(undefined)}>
          Only this step
        </Button>
      </div>
    </fieldset>
  )
}
