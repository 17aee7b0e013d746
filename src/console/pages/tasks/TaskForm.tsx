import { Result } from "effect"
import type { FormEvent, ReactNode } from "react"
import { Button } from "../../ui/Button.tsx"
import { Checkbox } from "../../ui/Checkbox.tsx"
import { type Failure, fieldError } from "../../ui/Failure.ts"
import { JsonField } from "../../ui/JsonField.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { NumberField, TextAreaField, TextField } from "../../ui/TextField.tsx"
import { parseJsonObject } from "../../ui/jsonText.ts"
import type { TaskDraft } from "./TaskDraft.ts"
import { ProviderFields } from "./ProviderFields.tsx"
import { SchemaWarnings } from "./SchemaWarnings.tsx"

/** The form of a new task and of an existing task's working copy. */
export const TaskForm = ({
  action,
  children,
  draft,
  failure,
  hasProviderHeaders = false,
  hasProviderKey = false,
  onChange,
  onSubmit,
  pending,
  schemasLocked = false
}: {
  readonly draft: TaskDraft
  readonly onChange: (draft: TaskDraft) => void
  readonly onSubmit: () => void
  /** The label of the submit button. */
  readonly action: string
  readonly pending: boolean
  readonly failure: Failure | undefined
  readonly hasProviderKey?: boolean
  readonly hasProviderHeaders?: boolean
  /** The schemas cannot change, because a dataset uses them. */
  readonly schemasLocked?: boolean
  /** Further buttons beside the submit button. */
  readonly children: ReactNode
}) => {
  const set = (change: Partial<TaskDraft>) => onChange({ ...draft, ...change })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onSubmit()
  }
  return (
    <form className="stack" onSubmit={submit}>
      <section className="card padded stack" aria-label="Task">
        <TextField
          label="Name"
          error={fieldError(failure, "name")}
          required
          maxLength={200}
          value={draft.name}
          onChange={(name) => set({ name })}
        />
        <TextAreaField
          label="Instructions"
          hint="Sent to the model with the input and the answer schema. {{input.name}} inserts a value of the input."
          error={fieldError(failure, "instructions")}
          rows={4}
          maxLength={100_000}
          value={draft.instructions}
          onChange={(instructions) => set({ instructions })}
        />
      </section>
      <section className="card padded stack" aria-label="Sampled runs">
        <NumberField
          label="Runs sampled for review, in percent"
          hint="Chosen at random. They wait in the review queue until someone gives feedback on them."
          error={fieldError(failure, "review_share")}
          className="short"
          min={0}
          max={100}
          value={draft.review_percent}
          onChange={(review_percent) => set({ review_percent })}
        />
      </section>
      {schemasLocked ? (
        <p className="notice">
          Input and answer schemas are locked because the dataset uses them. Create a new task to change them.
        </p>
      ) : (
        <section className="card padded side-by-side" aria-label="Schemas">
          <div>
            <JsonField
              label="Input schema"
              hint="JSON Schema 2020-12 that allows only objects."
              error={fieldError(failure, "input_schema")}
              text={draft.input_schema}
              onChange={(input_schema) => set({ input_schema })}
            />
            <DraftWarnings text={draft.input_schema} />
          </div>
          <div>
            <JsonField
              label="Answer schema"
              hint="Corrections must match this schema as well."
              error={fieldError(failure, "answer_schema")}
              text={draft.answer_schema}
              onChange={(answer_schema) => set({ answer_schema })}
            />
            <DraftWarnings text={draft.answer_schema} />
          </div>
        </section>
      )}
      <section className="card padded stack" aria-label="Provider">
        <ProviderFields
          provider={draft.provider}
          hasProviderKey={hasProviderKey}
          hasProviderHeaders={hasProviderHeaders}
          failure={failure}
          onChange={(provider) => set({ provider })}
        />
      </section>
      <section className="card padded stack" aria-label="Review of runs">
        <Checkbox checked={!draft.self_review} onChange={(isChecked) => set({ self_review: !isChecked })}>
          Corrections are staged by another person than their submitter
        </Checkbox>
      </section>
      <FailureNotice failure={failure} />
      <div className="dialog-actions">
        {children}
        <Button kind="primary" type="submit" pending={pending}>
          {action}
        </Button>
      </div>
    </form>
  )
}

/** The warnings about a schema as typed; nothing until it is a JSON object. */
const DraftWarnings = ({ text }: { readonly text: string }) => {
  const parsed = parseJsonObject(text)
  return Result.isFailure(parsed) ? null : <SchemaWarnings schema={parsed.success} />
}
