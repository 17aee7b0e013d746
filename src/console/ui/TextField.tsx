import type { ComponentProps, ReactNode } from "react"
import { Field } from "./Field.tsx"

interface Labels {
  readonly label: ReactNode
  readonly hint?: ReactNode
  readonly error?: string | undefined
  /** Gets the text that is in the control now. */
  readonly onChange: (text: string) => void
}

/** An input of a form, with a label, a hint and an error. */
export const TextField = ({
  error,
  hint,
  label,
  onChange,
  ...input
}: Labels & Omit<ComponentProps<"input">, "onChange">) => (
  <Field label={label} hint={hint} error={error}>
    {(field) => <input {...input} {...field} onChange={({ target }) => onChange(target.value)} />}
  </Field>
)

/** A number of a form, which is text until the form is submitted. */
export const NumberField = (props: Omit<ComponentProps<typeof TextField>, "type">) => (
  <TextField step="any" {...props} type="number" />
)

/** A text of several lines of a form, with a label, a hint and an error. */
export const TextAreaField = ({
  error,
  hint,
  label,
  onChange,
  ...textarea
}: Labels & Omit<ComponentProps<"textarea">, "onChange">) => (
  <Field label={label} hint={hint} error={error}>
    {(field) => <textarea {...textarea} {...field} onChange={({ target }) => onChange(target.value)} />}
  </Field>
)
