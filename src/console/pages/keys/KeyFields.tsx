import type { Failure } from "../../ui/Failure.ts"
import { fieldError } from "../../ui/Failure.ts"
import { Field } from "../../ui/Field.tsx"

interface Props {
  readonly value: string
  readonly onChange: (value: string) => void
  /** Of the request that saves the key. */
  readonly failure: Failure | undefined
  readonly hint: string
}

/** The name of a key. */
export const KeyNameField = ({ failure, hint, onChange, value }: Props) => (
  <Field label="Name" hint={hint} error={fieldError(failure, "name")}>
    {(field) => (
      <input
        {...field}
        required
        maxLength={200}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    )}
  </Field>
)

/** The address of a key's approval emails. */
export const KeyEmailField = ({ failure, hint, onChange, value }: Props) => (
  <Field label="Email for approval notifications" hint={hint} error={fieldError(failure, "email")}>
    {(field) => (
      <input {...field} type="email" value={value} onChange={(event) => onChange(event.target.value)} />
    )}
  </Field>
)
