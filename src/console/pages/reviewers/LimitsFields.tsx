import { type Failure, fieldError } from "../../ui/Failure.ts"
import { NumberField, TextAreaField } from "../../ui/TextField.tsx"
import type { LimitsDraft } from "./ReviewerDraft.ts"

interface LimitsProps {
  readonly draft: LimitsDraft
  readonly failure: Failure | undefined
  readonly onChange: (change: Partial<LimitsDraft>) => void
}

/** A whole number that a day must not exceed. */
const LimitField = ({
  draft,
  failure,
  hint,
  label,
  name,
  onChange
}: LimitsProps & {
  readonly name: "daily_calls" | "daily_tokens"
  readonly label: string
  readonly hint: string
}) => (
  <NumberField
    label={label}
    hint={hint}
    error={fieldError(failure, name)}
    required
    min={0}
    step={1}
    value={draft[name]}
    onChange={(text) => onChange({ [name]: text })}
  />
)

/** The fields for the tools of a reviewer model and for its limits of a day. */
export const LimitsFields = ({ draft, failure, onChange }: LimitsProps) => (
  <>
    <TextAreaField
      label="Tools"
      hint="It is asked about their steps that wait for a person. One name or pattern per line, with * as a wildcard."
      error={fieldError(failure, "tools")}
      required
      rows={3}
      spellCheck={false}
      autoCapitalize="off"
      value={draft.tools}
      onChange={(tools) => onChange({ tools })}
    />
    <div className="field-pairs">
      <LimitField
        name="daily_calls"
        label="Calls per day"
        hint="Beyond it, the model is not asked before midnight (UTC)."
        {...{ draft, failure, onChange }}
      />
      <LimitField
        name="daily_tokens"
        label="Tokens per day"
        hint="As the model server reports them."
        {...{ draft, failure, onChange }}
      />
    </div>
  </>
)
