import type { FormEvent, ReactNode } from "react"
import { Button } from "../../ui/Button.tsx"
import { type Failure, fieldError } from "../../ui/Failure.ts"
import { Field } from "../../ui/Field.tsx"
import { JsonField } from "../../ui/JsonField.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import type { TaskDraft } from "./TaskDraft.ts"
import { ProviderFields } from "./ProviderFields.tsx"

/** What a task is made of, to be filled in: for a new one, and for the working copy of one that is there. */
export const TaskForm = ({
  action,
  children,
  draft,
  failure,
  keySet = false,
  onChange,
  onSubmit,
  pending,
  schemasLocked = false
}: {
  readonly draft: TaskDraft
  readonly onChange: (draft: TaskDraft) => void
  readonly onSubmit: () => void
  /** What the button that sends it says. */
  readonly action: string
  readonly pending: boolean
  readonly failure: Failure | undefined
  readonly keySet?: boolean
  /** Whether the shapes can no longer be others, since something was made in them. */
  readonly schemasLocked?: boolean
  /** What stands beside the button. */
  readonly children: ReactNode
}) => {
  const set = (change: Partial<TaskDraft>) => onChange({ ...draft, ...change })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onSubmit()
  }
  return (
    <form className="stack" onSubmit={submit}>
      <section className="card padded stack" aria-label="What is asked">
        <Field label="Name" fault={fieldError(failure, "name")}>
          {(field) => (
            <input
              {...field}
              required
              maxLength={200}
              value={draft.name}
              onChange={({ target }) => set({ name: target.value })}
            />
          )}
        </Field>
        <Field
          label="Instructions"
          hint="What the model is told, beside the input and the shape of the answer."
          fault={fieldError(failure, "instructions")}
        >
          {(field) => (
            <textarea
              {...field}
              rows={4}
              maxLength={100_000}
              value={draft.instructions}
              onChange={({ target }) => set({ instructions: target.value })}
            />
          )}
        </Field>
      </section>
      {schemasLocked ? (
        <p className="notice">
          The shapes of inputs and answers stay: the examples of the dataset fit them. Another shape is
          another task.
        </p>
      ) : (
        <section className="card padded side-by-side" aria-label="Shapes">
          <JsonField
            label="The shape of inputs"
            hint="JSON Schema 2020-12, an object at its top."
            fault={fieldError(failure, "input_schema")}
            text={draft.input_schema}
            onChange={(input_schema) => set({ input_schema })}
          />
          <JsonField
            label="The shape of answers"
            hint="Corrections have this shape, too."
            fault={fieldError(failure, "answer_schema")}
            text={draft.answer_schema}
            onChange={(answer_schema) => set({ answer_schema })}
          />
        </section>
      )}
      <section className="card padded stack" aria-label="Who answers">
        <ProviderFields
          provider={draft.provider}
          keySet={keySet}
          failure={failure}
          onChange={(provider) => set({ provider })}
        />
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
