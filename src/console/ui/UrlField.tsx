import { Field } from "./Field.tsx"

/** An address to send to. What it may be is judged by the service, and said at the field. */
export const UrlField = ({
  fault,
  hint,
  onChange,
  value
}: {
  readonly value: string
  readonly hint: string
  readonly fault: string | undefined
  readonly onChange: (value: string) => void
}) => (
  <Field label="Address" hint={hint} fault={fault}>
    {(field) => (
      <input
        {...field}
        type="url"
        required
        maxLength={2048}
        spellCheck={false}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    )}
  </Field>
)
