import { type Failure, fieldError } from "../../ui/Failure.ts"
import { Field } from "../../ui/Field.tsx"
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
  <Field label={label} hint={hint} error={fieldError(failure, name)}>
    {(field) => (
      <input
        {...field}
        type="number"
        required
        min={0}
        step={1}
        value={draft[name]}
        onChange={({ target }) => onChange({ [name]: target.value })}
      />
    )}
  </Field>
)

/** The fields for the tools of a reviewer model and for its limits of a day. */
export const LimitsFields = ({ draft, failure, onChange }: LimitsProps) => (
  <>
    <Field
      label="Tools"
      hint="It is asked about their steps that wait for a person. One name or pattern per line, with * as a wildcard."
      error={fieldError(failure, "tools")}
    >
      {(field) => (
        <textarea
          {...field}
          required
          rows={3}
          spellCheck={false}
          autoCapitalize="off"
          value={draft.tools}
          onChange={({ target }) => onChange({ tools: target.value })}
        />
      )}
    </Field>
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
